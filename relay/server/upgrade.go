package server

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay/hub"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/token"
)

// upgrade lets a gateway in. Everything that is wrong with a credential is told by a close after
// the upgrade: an HTTP 401 is just a failed connect to a gateway.
func (s *Server) upgrade(ctx, hurry context.Context, w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Origin") != "" { // gateways are not browsers
		answer(w, http.StatusForbidden, map[string]string{"error": "browsers are not served here"})
		return
	}
	if !s.enter() {
		answer(w, http.StatusServiceUnavailable, map[string]string{"error": "stopping"})
		return
	}
	defer s.sessions.Done()
	addr := s.remote(r)
	peer, verdict, err := s.auth.Verify(r.Context(), bearer(r))
	if err == nil && verdict == token.Unauthorized {
		if wait := s.failed.add(addr, time.Now()); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			answer(w, http.StatusTooManyRequests, map[string]string{"error": "too many failed attempts"})
			return
		}
	}
	conn, acceptErr := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if acceptErr != nil { // Accept has answered
		s.log.Debug("upgrade refused", "from", addr, "err", acceptErr)
		return
	}
	switch {
	case err != nil:
		s.log.Warn("credential not verified; the gateway tries again", "from", addr, "err", err)
		_ = conn.Close(websocket.StatusTryAgainLater, "unavailable")
	case verdict == token.Expired:
		s.log.Info("expired token refused; check the clocks", "from", addr, "gateway", peer.Gateway)
		_ = conn.Close(websocket.StatusTryAgainLater, "expired")
	case verdict != token.Valid:
		s.log.Info("unknown credential refused", "from", addr)
		_ = conn.Close(session.CodeUnauthorized, "unauthorized")
	default:
		s.serve(ctx, hurry, conn, peer, addr)
	}
}

// serve runs the session of a verified peer until it ends.
func (s *Server) serve(ctx, hurry context.Context, conn *websocket.Conn, peer token.Peer, addr netip.Addr) {
	if err := s.auth.Used(ctx, peer); err != nil {
		s.log.Warn("older secrets not retired; the next dial tries again", "gateway", peer.Gateway, "err", err)
	}
	err := s.hub.Serve(ctx, hurry, conn, session.Peer{
		Gateway: peer.Gateway, Instance: peer.Instance, Tenant: peer.Tenant, SecretID: peer.SecretID, Addr: addr,
	})
	var refused *hub.Refused
	if errors.As(err, &refused) {
		_ = conn.Close(websocket.StatusTryAgainLater, refused.Reason)
	}
	s.log.Info("session ended", "gateway", peer.Gateway, "instance", peer.Instance, "err", err)
}

// bearer is the request's bearer token; empty when there is none.
func bearer(r *http.Request) string {
	scheme, t, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(t)
}
