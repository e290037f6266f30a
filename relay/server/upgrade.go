package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay/hub"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/token"
)

// upgrade verifies a gateway's credential and starts its session, which ends with ctx: its running actions finish
// first, unless hurry ends, too. A fault of the credential is reported by a close after the upgrade: for a gateway, an
// HTTP 401 is only a failed connection.
func (s *Server) upgrade(ctx, hurry context.Context, w http.ResponseWriter, r *http.Request, addr netip.Addr) {
	if !s.enter() {
		routes.Refuse(w, http.StatusServiceUnavailable, "stopping")
		return
	}
	defer s.sessions.Done()
	peer, verdict, err := s.auth.Verify(r.Context(), routes.Bearer(r))
	if err == nil && (verdict == token.Unauthorized || verdict == token.Expired) {
		if wait := s.o.Failures.Add(addr, s.o.Now()); wait > 0 {
			routes.TooMany(w, wait, "too many failed attempts")
			return
		}
	}
	if err == nil && verdict == token.Valid {
		limits.Verified(r.Context())
	}
	conn, acceptErr := session.Accept(w, r)
	if acceptErr != nil { // Accept has answered
		s.o.Log.Debug("upgrade refused", "from", addr, "err", acceptErr)
		return
	}
	switch {
	case err != nil:
		s.o.Log.Warn("credential not verified; the gateway tries again", "from", addr, "err", err)
		_ = conn.Close(websocket.StatusTryAgainLater, "unavailable")
	case verdict == token.Expired:
		s.o.Log.Info("expired token refused; check the clocks", "from", addr, "gateway", peer.Gateway)
		_ = conn.Close(websocket.StatusTryAgainLater, "expired")
	case verdict != token.Valid:
		s.o.Log.Info("unknown credential refused", "from", addr)
		_ = conn.Close(session.CodeUnauthorized, "unauthorized")
		s.auth.Refused(ctx, routes.Bearer(r), addr)
	default:
		p := &session.Peer{
			Gateway: peer.Gateway, Instance: peer.Instance, Tenant: peer.Tenant, SecretID: peer.SecretID, Addr: addr,
			Stock:  strings.Contains(r.UserAgent(), " websockets/"),
			Origin: origin(r, s.o.TrustedProxies, s.o.PublicURL),
		}
		if err := s.auth.Used(ctx, peer, addr); err != nil {
			s.o.Log.Warn("older secrets not retired; the next dial tries again", "gateway", peer.Gateway, "err", err)
		}
		s.sessions.Go(func() { // an idle session keeps this stack, so little else may be on it
			s.served(conn, p, s.hub.Serve(ctx, hurry, conn, p))
		})
	}
}

// served closes the connection if the hub refused it, and logs why the session ended, or was refused.
func (s *Server) served(conn *session.Conn, peer *session.Peer, err error) {
	var refused *hub.Refused
	if errors.As(err, &refused) {
		_ = conn.Close(websocket.StatusTryAgainLater, refused.Reason)
	}
	s.o.Log.Info("session ended", "gateway", peer.Gateway, "instance", peer.Instance, "reason", ended(err))
	s.o.Log.Debug("session ended", "gateway", peer.Gateway, "instance", peer.Instance, "err", err)
}

// ended puts into words why a session is over.
func ended(err error) string {
	if err == nil {
		return "the server stops"
	}
	if refused, ok := errors.AsType[*hub.Refused](err); ok {
		return refused.Error()
	}
	if closed, ok := errors.AsType[*session.Closed](err); ok {
		return fmt.Sprintf("closed with %d: %s", int(closed.Code), closed.Reason)
	}
	if code := websocket.CloseStatus(err); code != -1 {
		return fmt.Sprintf("the gateway closed the connection with %d", int(code))
	}
	return "the connection broke"
}
