package store

import (
	"io"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Restore and Salvage are those of store/restore, which imports this package: linked_test.go puts them here.
var Restore, Salvage func(path string, r io.Reader, o Options) (Restored, error)

// Restored is as of store/restore.
type Restored struct {
	Kept                        string
	Compared, Carried, FellBack bool
	Lost, Back                  Content
	Damaged                     int
	Unread                      []string
	MadeAt                      time.Time
}

// Content is as of store/restore.
type Content struct {
	Messages map[relay.InstanceID]int
	Dead     map[relay.InstanceID]int
	Gateways []relay.GatewayID
	Bindings int
	Grants   int
}
