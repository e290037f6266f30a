package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/authors"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/outbox"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// Revoke revokes gateways of an instance, or all of them if ids is empty, and drops their secrets, delivery keys and
// waiting answers. If no other gateway serves the instance then, it also drops the instance's bindings, grants, routes,
// conversations, link and identity codes and unused enrollment tokens, moves its lane to the dead letters (DeadRemoved)
// and closes the lane, all in one transaction. It returns the gateways that were not revoked before. Called again, it
// returns none and changes nothing; only with empty ids does it drop what was added to the instance in the meantime. It
// returns ErrNotFound if the instance does not exist, or if one of the gateways does not belong to it.
func (db *DB) Revoke(ctx context.Context, row *audit.Entry, i relay.InstanceID, ids ...relay.GatewayID) (gone []relay.GatewayID, err error) {
	now := db.now()
	err = db.change(ctx, row, "revoke", func(t *tx) error {
		gone = nil
		all, err := t.revocable(i, ids)
		if err != nil {
			return err
		}
		for _, g := range all {
			g.Revoked, g.Secrets, g.DeliveryKey = true, nil, nil
			if err := t.Put(BucketGateways, table.Key(g.ID), g); err != nil {
				return err
			}
			gone = append(gone, g.ID)
		}
		if _, err := t.dropAnswers(func(r outbox.Record) bool { return slices.Contains(gone, r.Gateway) }, history.Revoked, now); err != nil {
			return err
		}
		if len(ids) > 0 && (len(gone) == 0 || len(t.liveGateways(i)) > 0) {
			return nil
		}
		return t.strip(i, now)
	})
	return gone, err
}

// revocable returns those of the gateways ids that are not revoked yet; with empty ids, those of all gateways of i.
func (t *tx) revocable(i relay.InstanceID, ids []relay.GatewayID) (out []Gateway, err error) {
	if len(ids) == 0 {
		inst, err := table.Must[Instance](t.Tx, BucketInstances, table.Key(i), "instance "+string(i))
		t.concerns(inst.Tenant, i, "")
		return t.liveGateways(i), err
	}
	for _, id := range ids {
		g, err := table.Must[Gateway](t.Tx, BucketGateways, table.Key(id), "gateway "+string(id))
		if err == nil && g.Instance != i {
			err = fmt.Errorf("gateway %s of %s: %w", id, i, ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
		t.concerns(g.Tenant, i, id)
		if !g.Revoked {
			out = append(out, g)
		}
	}
	return out, nil
}

// liveGateways returns the gateways of i that are not revoked, by id. A damaged record does not count: it must not keep
// the revocation of another gateway from taking effect.
func (t *tx) liveGateways(i relay.InstanceID) []Gateway {
	return slices.DeleteFunc(table.Readable[Gateway](t.Tx, BucketGateways), func(g Gateway) bool { return g.Instance != i || g.Revoked })
}

// dropAnswers drops the answers that the function which selects, and returns how many these were. For each answer that
// was waiting it adds why to the history.
func (t *tx) dropAnswers(which func(outbox.Record) bool, why string, now time.Time) (int, error) {
	return outbox.DropWhere(t.Writer, func(r outbox.Record) bool {
		goes := which(r)
		if goes && r.State() == outbox.Waiting {
			t.history.Said(history.Said{
				At: now, Instance: r.Instance, Chat: r.Line(), Op: r.Op, State: history.Dropped, Why: why, Queued: r.ID,
			})
		}
		return goes
	}, now)
}

// DropAnswers removes answers of i that are not sent, all of them if ids is empty, and returns how many there were.
func (db *DB) DropAnswers(ctx context.Context, row *audit.Entry, i relay.InstanceID, ids ...relay.MessageID) (n int, err error) {
	now := db.now()
	err = db.change(ctx, row, "drop answers", func(t *tx) (err error) {
		n, err = t.dropAnswers(func(r outbox.Record) bool {
			return r.Instance == i && r.State() != outbox.Sent && (len(ids) == 0 || slices.Contains(ids, r.ID))
		}, history.Removed, now)
		return err
	})
	return n, err
}

// strip deletes everything that i was given or has declared, and every code and token that could enroll i or act for
// it. It moves the entries of its lane to the dead letters, and closes the lane. If nothing is left to delete, it
// changes nothing. The instance's record and its dead letters stay, for the operator to see.
func (t *tx) strip(i relay.InstanceID, now time.Time) error {
	w := t.Writer
	_, failed := t.dropAnswers(func(r outbox.Record) bool { return r.Instance == i }, history.Revoked, now)
	err := errors.Join(
		failed,
		table.DropUnder(w, bucketCommands, table.Prefix(i)),
		table.DropUnder(w, capability.Bucket, table.Prefix(i)),
		media.Strip(w, i, now),
		dropIndexed[Binding](w, BucketBindings, table.IndexUnder(BucketBindings, byInstance, string(i))),
		dropIndexed[prompt.Record](w, prompt.Bucket, prompt.Of(i)),
		dropIndexed[Grant](w, BucketGrants, table.IndexUnder(BucketGrants, byInstance, string(i))),
		dropAll[Conversation](w, bucketConversations, table.KeysUnder(w.Tx, bucketConversations, table.Prefix(i))...),
		dropCodes(w, LinkCode, i),
		dropCodes(w, IdentityCode, i),
		table.DropWhere(w, bucketTokens, func(c Code) bool { return c.Instance == i && !c.Used }),
		table.DropWhere(w, authors.Bucket, func(r authors.Record) bool { return r.Instance == i }),
		table.DropKeys(w, bucketRoutes, routeKeysOf(w.Tx, nil, i)))
	if err != nil {
		return err
	}
	if inst, ok, damaged := table.Load[Instance](w.Tx, BucketInstances, table.Key(i)); damaged == nil && ok && inst.Label != "" {
		inst.Label = "" // another instance may take the name
		if err := w.Put(BucketInstances, table.Key(i), inst); err != nil {
			return err
		}
	}
	l, err := t.lane(i)
	if err == nil {
		err = l.buryWhere(DeadRemoved, now, nil)
	}
	if err == nil && !l.Closed {
		l.Closed = true
		l.touch()
	}
	return err
}
