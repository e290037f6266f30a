package manage

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/store/audit"
)

// WebLink is a link that opens the web pages for the first person who follows it.
type WebLink struct {
	URL       string    `json:"url"` // it contains the code
	Code      string    `json:"code"`
	ExpiresAt time.Time `json:"expiresAt"`
	// Fingerprint is the SHA-256 of the pages' certificate, if the connector made that certificate itself: browsers warn
	// about it.
	Fingerprint string `json:"fingerprint,omitempty"`
}

// WebLink makes a link to the web pages, good for one login. Refused with Usage when there are no such pages.
func (s *process) WebLink(ctx context.Context, by audit.Actor, _ struct{}) (WebLink, error) {
	if s.set.WebURL == "" {
		return WebLink{}, refuse(Usage, `the web pages are off: write listen = "127.0.0.1:8788" under [web] in connector.toml and start the server again`)
	}
	code, until, err := s.web.Mint(ctx, by)
	if err != nil {
		return WebLink{}, err
	}
	l := WebLink{URL: s.set.WebURL + "/login?code=" + code, Code: code, ExpiresAt: until.UTC()}
	if s.set.WebFingerprint != nil {
		l.Fingerprint = s.set.WebFingerprint()
	}
	return l, nil
}

// WebLogout says how many sessions of the web pages were ended.
type WebLogout struct {
	Sessions int `json:"sessions"`
}

// WebLogout ends all sessions of the web pages, and makes unused links worthless.
func (s *process) WebLogout(ctx context.Context, by audit.Actor, _ struct{}) (WebLogout, error) {
	n, err := s.web.LogOutAll(ctx, by)
	return WebLogout{Sessions: n}, err
}
