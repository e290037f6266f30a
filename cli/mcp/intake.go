package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/mcp/spool"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// mendEvery is how often the server tries again to write a spool that could not be written.
const mendEvery = 30 * time.Second

// intake puts one delivery after the other into the spool until ctx ends.
func (s *Server) intake(ctx context.Context, sp *spool.Spool) {
	for ctx.Err() == nil {
		if sp.Full() || sp.Broken() != nil {
			s.rest(ctx, sp)
			continue
		}
		in, err := s.client.Delivery(ctx)
		if err != nil {
			return // ctx has ended
		}
		if err := s.take(ctx, sp, in); err != nil && ctx.Err() == nil {
			s.o.Log.Error("a message is not taken over, and waits at the connector", "err", err)
			s.rest(ctx, sp) // the connector sends nothing else before it has sent this delivery again
		}
	}
}

// take puts a delivery into the spool and then acknowledges it. A repeated delivery is acknowledged again.
func (s *Server) take(ctx context.Context, sp *spool.Spool, in wire.Inbound) error {
	digest := digestOf(in)
	if !sp.Has(digest) && !s.approvals.answered(ctx, sp, in.Event) {
		ev := in.Event
		e := spool.Entry{Digest: digest, Key: string(sessionkey.Build(ev.Source, sessionkey.Options{})), Files: s.fetchAll(ctx, sp, ev.Media)}
		if ctx.Err() != nil {
			return ctx.Err() // the delivery comes again, and its files may be fetched then
		}
		ev.Media = nil
		e.Event = ev
		if err := sp.Append(e); err != nil {
			for _, f := range e.Files { // the delivery comes again, and its files are fetched again
				if f.Name != "" {
					_ = os.Remove(sp.FilePath(f.Name)) // the next start removes it if this fails
				}
			}
			return err
		}
	}
	// If the connection is lost, the delivery comes again and is recognised. The context is not ctx, because one that
	// ends during a write would end the connection.
	_ = s.client.Acknowledge(s.life, in.Buffer)
	return nil
}

// digestOf returns the digest by which a repeated delivery is recognised. The buffer id alone is not enough: buffer ids
// begin anew when the connector's database is restored from a backup.
func digestOf(in wire.Inbound) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{in.Buffer, string(in.Event.Source.Platform), string(in.Event.MessageID)}))
	return hex.EncodeToString(sum[:12])
}

// rest leaves deliveries with the connector until the spool can be written and, if it was full, has room again. For
// that it tells the connector, on each new connection, that it is going idle: the connector then sends deliveries again
// later, and does not count them as lost with a dead connection. Messages can still be sent. In the end rest dials
// again.
func (s *Server) rest(ctx context.Context, sp *spool.Spool) {
	s.o.Log.Warn("the spool takes no more: the connector keeps what comes", "full", sp.Full(), "err", sp.Broken())
	tick := time.NewTicker(mendEvery)
	defer tick.Stop()
	told, full := int64(-1), sp.Full()
	for {
		changed := sp.Changed()
		if n := s.greeted.Load(); n != told {
			told = n
			_ = s.client.GoingIdle(s.life) // if it fails, it is repeated at the next connection
		}
		if sp.Broken() == nil && (sp.Low() || !full && !sp.Full()) {
			s.o.Log.Info("the spool has room again")
			s.acting.Lock()
			s.client.Redial()
			s.acting.Unlock()
			return
		}
		select {
		case <-changed:
		case <-s.greeting:
		case <-tick.C:
			_ = sp.Mend() // Broken says what is wrong
		case <-ctx.Done():
			return
		}
	}
}
