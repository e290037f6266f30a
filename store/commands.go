package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

const bucketCommands = "commands" // instance|platform -> list of commands

func commandsKey(i relay.InstanceID, p relay.PlatformID) []byte { return table.Key(i, string(p)) }

// Manifest is the commands that an instance's gateway declared in its last hello for a platform. It has a record of its
// own, because it can be large, and the record of the instance is read with every event.
type Manifest struct {
	Instance relay.InstanceID
	Since    time.Time // when the instance was enrolled
	Commands []json.RawMessage
}

// Commands are the manifests that gateways declare. Its methods may be called from any goroutine.
type Commands struct{ db *DB }

// Set stores the manifest of i's gateway for a platform, if it differs from the stored one. ErrNotFound: the instance
// does not exist, or was revoked.
func (cs *Commands) Set(ctx context.Context, i relay.InstanceID, p relay.PlatformID, commands []json.RawMessage) error {
	return cs.db.change(ctx, nil, fmt.Sprintf("commands of %s", i), func(t *tx) error {
		if _, err := t.live(i); err != nil {
			return err
		}
		return t.PutChanged(bucketCommands, commandsKey(i, p), commands)
	})
}

// List lists the manifests for a platform or, if p is empty, for all platforms. The manifests of the instance that was
// enrolled first come first.
func (cs *Commands) List(ctx context.Context, p relay.PlatformID) ([]Manifest, error) {
	out, err := table.Get(ctx, cs.db.records, "manifests", func(t *bolt.Tx) (out []Manifest, err error) {
		instances, err := table.List[Instance](t, BucketInstances, nil)
		for _, i := range instances {
			var all [][]json.RawMessage
			if p == "" {
				all, err = table.List[[]json.RawMessage](t, bucketCommands, table.Prefix(i.ID))
			} else {
				all, err = table.AtMostOne[[]json.RawMessage](t, bucketCommands, commandsKey(i.ID, p))
			}
			if err != nil {
				return nil, err
			}
			for _, commands := range all {
				out = append(out, Manifest{Instance: i.ID, Since: i.CreatedAt, Commands: commands})
			}
		}
		return out, err
	})
	slices.SortStableFunc(out, func(a, b Manifest) int { return a.Since.Compare(b.Since) })
	return out, err
}
