package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// public calls base, the address that gateways dial, from this machine. It returns the findings: whether this server
// answers there, and whether WebSockets get through. running says whether a server runs here; run is the id that the
// server's /healthz shows (empty: not known). Certificates are checked against roots; nil means the system's.
func public(ctx context.Context, base string, running bool, run string, now time.Time, roots *x509.CertPool) finding.List {
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{ // ignores $HTTP_PROXY, to test the direct way
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			TLSNextProto:      map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1, as gateways speak it
		},
	}
	res, body, err := get(ctx, client, base+"/healthz", nil)
	var health struct {
		OK  bool   `json:"ok"`
		Run string `json:"run"`
	}
	ours := err == nil && json.Unmarshal(body, &health) == nil && health.OK
	var out finding.List
	if err == nil && res.TLS != nil {
		out = validity(base, res.TLS.PeerCertificates[0], now)
	}
	const send = "let the proxy pass every path below it to this server; `hermes-connector help proxy` shows how"
	if err != nil {
		why := silent(base, err)
		if !running && why.Code == finding.PublicSilent.Code { // without a server nobody can answer
			return nil
		}
		return finding.List{why}
	}
	switch {
	case !running && ours:
		return append(out, finding.PublicElsewhere.Of(base, "another hermes-connector answers there, and none runs here", "stop that one, or run the commands on its machine"))
	case !running && res.StatusCode != http.StatusOK: // a proxy says that it reaches no server, which is true
		return out
	case res.StatusCode >= 502 && res.StatusCode <= 504 && !ours:
		return append(out, finding.PublicSilent.Of(base, fmt.Sprintf("a proxy answers there with %d: it does not reach this server", res.StatusCode),
			"let the proxy pass requests to this server's address, and check that a firewall does not block it"))
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return append(out, finding.PublicElsewhere.Of(base, fmt.Sprintf("it answers with a redirect (%d)", res.StatusCode), "set public_url to the address it leads to: gateways follow no redirects"))
	case !ours:
		return append(out, finding.PublicElsewhere.Of(base, fmt.Sprintf("another program answers there (with status %d)", res.StatusCode), send))
	case run != "" && health.Run != run:
		return append(out, finding.PublicElsewhere.Of(base, "another hermes-connector answers there", send))
	}
	return append(out, upgrades(ctx, client, base)...)
}

// advertised calls base, the address at which other nodes reach this one, in the way that they do, and returns a
// finding if this node does not answer. judge checks the certificate. run is the id that /healthz must show: that of
// this server, or of the leader to which this node passes requests.
func advertised(ctx context.Context, base, run string, judge *tls.Config) finding.List {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: judge}}
	_, body, err := get(ctx, client, base+"/healthz", nil)
	var health struct {
		Run string `json:"run"`
	}
	const fix = "set advertise under [cluster] to where other nodes reach this one's listener, and restart the server"
	if isCertificate(err) {
		return finding.AdvertiseSilent.Alone(base, "other nodes refuse the certificate there: "+err.Error(), "give all nodes the same certificate ([tls]), or one for the name in advertise")
	}
	switch {
	case err != nil:
		return finding.AdvertiseSilent.Alone(base, "nobody answers there: "+cause(err), fix)
	case json.Unmarshal(body, &health) != nil || health.Run != run:
		return finding.AdvertiseSilent.Alone(base, "another program answers there, or a node of another cluster", fix)
	}
	return nil
}

// isCertificate reports whether err is about a certificate.
func isCertificate(err error) bool {
	_, name := errors.AsType[x509.HostnameError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	return name || unknown || invalid
}

// upgrades asks for a WebSocket without a credential. The server makes the upgrade before it refuses the credential.
func upgrades(ctx context.Context, client *http.Client, base string) finding.List {
	res, _, err := get(ctx, client, base+"/relay", http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"ZG9jdG9yIGFza3MgeW91IQ=="},
	})
	const pass = "let the proxy pass the headers Upgrade and Connection on, and speak HTTP/1.1 to this server; `hermes-connector help proxy` shows how"
	switch {
	case err != nil:
		return finding.PublicNoUpgrade.Alone(base, "WebSockets are not let through: "+cause(err), pass)
	case res.StatusCode == http.StatusTooManyRequests:
		return finding.NotLookedAt.Alone("WebSockets at "+base, "the server got too many wrong credentials from there", "try again in a minute")
	case res.StatusCode != http.StatusSwitchingProtocols:
		return finding.PublicNoUpgrade.Alone(base, fmt.Sprintf("WebSockets are not let through: the answer is status %d", res.StatusCode), pass)
	}
	return nil
}

// get calls url, and reads the body unless the answer is an upgrade.
func get(ctx context.Context, client *http.Client, url string, header http.Header) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	if header != nil {
		req.Header = header
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusSwitchingProtocols {
		return res, nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	return res, body, err
}

// silent returns the finding that a request to base failed with err.
func silent(base string, err error) finding.Finding {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return finding.CertificateOver.Of(base, "the certificate there has expired, or is not valid yet", renew)
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return finding.CertificateName.Of(base, "the certificate there is for another name", "get one for the name in public_url")
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return finding.CertificateDoubt.Of(base, "this machine does not trust the certificate there", "get one from an authority that gateways trust, and serve it with its chain")
	}
	return finding.PublicSilent.Of(base, "nobody answers there: "+cause(err),
		"check that the proxy runs and that name and port lead to it (some routers do not let a machine reach its own public address)")
}

// cause says in few words why a request failed.
func cause(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return "the name does not exist"
		}
		return "DNS does not work"
	}
	var late interface{ Timeout() bool }
	if errors.As(err, &late) && late.Timeout() {
		return "no answer in time"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return "the connection is refused, or there is no route"
	}
	return "the connection broke"
}
