package guard

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dns answers every name with the same addresses: those of the next answer, the last one for ever.
type dns struct {
	mu      sync.Mutex // guards the fields below
	answers [][]netip.Addr
	asked   map[string]bool // names that were looked up
}

func newDNS(answers ...[]netip.Addr) *dns {
	return &dns{answers: answers, asked: make(map[string]bool)}
}

// one is an answer of one address.
func one(addr string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(addr)} }

// next makes the resolver answer with the next addresses.
func (d *dns) next() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.answers) > 1 {
		d.answers = d.answers[1:]
	}
}

func (d *dns) names() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.asked)
}

// resolver is the real one of package net, with us as its server.
func (d *dns) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go d.serve(ours) // ends when the resolver closes its end
		return theirs, nil
	}}
}

// serve answers queries as over TCP: each with its length in front.
func (d *dns) serve(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		reply := d.answer(query)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// answer is the reply to a query of one question.
func (d *dns) answer(query []byte) []byte {
	end := 12
	var name []string
	for query[end] != 0 {
		name = append(name, string(query[end+1:end+1+int(query[end])]))
		end += 1 + int(query[end])
	}
	end += 5 // the root label, type and class
	wantIPv6 := query[end-3] == 28

	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[strings.Join(name, ".")] = true
	var records []byte
	n := byte(0)
	for _, a := range d.answers[0] {
		if a.Is6() != wantIPv6 {
			continue
		}
		n++
		records = append(records, 0xc0, 12, 0, query[end-3], 0, 1, 0, 0, 0, 0, 0, byte(a.BitLen()/8))
		records = append(records, a.AsSlice()...)
	}
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, n, 0, 0, 0, 0}, query[12:end]...)
	return append(reply, records...)
}

// publicLoopback makes the guard take 127.0.0.1 for a public address.
func publicLoopback(g *Guard) *Guard {
	g.classify = func(a netip.Addr) class {
		if a == netip.MustParseAddr("127.0.0.1") {
			return class{}
		}
		return classify(a)
	}
	return g
}

// base is the transport below the check of the URL.
func base(g *Guard) *http.Transport { return g.client.Transport.(*transport).base.(*http.Transport) }

func prefixes(s ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range s {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// get asks for a URL and returns the error; an answer is closed unread.
func get(t testing.TB, g *Guard, url string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := g.Client().Do(r)
	if err != nil {
		return nil, err
	}
	return res, res.Body.Close()
}
