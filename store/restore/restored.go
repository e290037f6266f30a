package restore

import (
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
)

// Restored is the result of a Restore.
type Restored struct {
	MadeAt   time.Time `json:"madeAt,omitzero"` // of the backup; zero if it does not say
	Kept     string    `json:"kept,omitempty"`  // where the former database is; empty if there was none
	Compared bool      `json:"compared"`        // the former database could be read; otherwise Lost and Back say nothing
	Lost     Content   `json:"lost"`            // in the former database and not in the backup
	Back     Content   `json:"back"`            // in the backup and deleted since
	// Carried: events delivered since the backup do not come again, except the messages in Back. Otherwise nobody knows
	// which they were: events since MadeAt may come again.
	Carried bool `json:"carried"`
	Damaged int  `json:"damaged"` // damaged records of the backup; the next Open names them and sets them aside
	// FellBack: the newest commit of the backup was unreadable, and the one before it is used. It is false for a backup
	// that DB.Backup wrote, in which both meta pages lead to the same content.
	FellBack bool `json:"fellBack,omitempty"`
	// Unread lists what a Salvage could not read, a line each, and what had to be dropped with it.
	Unread []string `json:"unread,omitempty"`
}

// Content counts the records of a database that people would miss.
type Content struct {
	Messages map[relay.InstanceID]int `json:"messages,omitempty"` // waiting, per instance; without those where none do
	Dead     map[relay.InstanceID]int `json:"dead,omitempty"`     // dead letters, likewise
	Gateways []relay.GatewayID        `json:"gateways,omitempty"` // that are not revoked, by name
	Bindings int                      `json:"bindings"`
	Grants   int                      `json:"grants"`
}

// dated notes when the backup temp was made, if it has a trailer, and cuts the trailer off.
func (r *Restored) dated(temp string) error {
	made, ok, err := boltfile.CutTrailer(temp)
	if ok {
		r.MadeAt, r.FellBack = made, false
	}
	return err
}
