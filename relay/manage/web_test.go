package manage_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

func TestWebLink(t *testing.T) {
	ctx, w := context.Background(), newWorld(t, nil)
	_, err := w.WebLink(ctx, operator, struct{}{})
	if refused, ok := errors.AsType[*manage.Error](err); !ok || refused.Why != manage.Usage || !strings.Contains(refused.Message, "[web]") {
		t.Errorf("without web pages: %v, want a refusal that says what to write", err)
	}
	w.change(func(s *manage.Settings) {
		s.WebURL, s.WebFingerprint = "http://127.0.0.1:8788", func() string { return "AB:CD" }
	})
	l, err := w.WebLink(ctx, operator, struct{}{})
	if err != nil || l.URL != "http://127.0.0.1:8788/login?code="+l.Code || l.ExpiresAt.Sub(noon) != login.CodeFor || l.Fingerprint != "AB:CD" {
		t.Fatalf("WebLink = %+v, %v", l, err)
	}
	desk := login.NewDesk(w.db.Codes, w.vault, func() time.Time { return w.now })
	token, _, err := desk.LogIn(ctx, l.Code, time.Hour)
	if err != nil {
		t.Fatalf("the code of a link: %v", err)
	}
	if out, err := w.WebLogout(ctx, operator, struct{}{}); err != nil || out.Sessions != 1 {
		t.Errorf("WebLogout = %+v, %v; want 1 session", out, err)
	}
	if _, err := desk.Session(ctx, token.RevealString()); !errors.Is(err, login.ErrNotGood) {
		t.Errorf("the session after the logout: %v", err)
	}
}
