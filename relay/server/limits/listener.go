package limits

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
)

// How many connections strangers may hold. A connection is a stranger's until a credential has been verified on it.
const (
	MaxStrangers = 1024
	// MaxOfAddress is how many strangers' connections one address may hold: seven addresses cannot hold all.
	MaxOfAddress = 128
)

// Listener is a listener that bounds the strangers' connections. Its methods may be called from any
// goroutine.
type Listener struct {
	net.Listener
	share   *Share
	trusted func(netip.Addr) bool // reports proxies, which MaxOfAddress does not bind: they dial for many; nil: none
	refused func()                // called for each connection that was refused
}

// NewListener makes a listener of l, whose connections must be plain: TLS is to be put on top of it.
func NewListener(l net.Listener, trusted func(netip.Addr) bool, refused func()) *Listener {
	return &Listener{l, NewShare(MaxStrangers, MaxOfAddress), trusted, refused}
}

// Accept waits for a connection within the bounds.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		var from netip.Addr
		if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
			from = a.AddrPort().Addr()
		}
		if leave, ok := l.enter(from); ok {
			return &stranger{Conn: conn, of: l, leave: leave}, nil
		}
		_ = conn.Close()
	}
}

// enter counts a connection from a, unless there are too many.
func (l *Listener) enter(a netip.Addr) (leave func(), ok bool) {
	if l.trusted != nil && l.trusted(a) {
		a = netip.Addr{}
	}
	if leave, ok = l.share.Enter(a); !ok {
		l.refused()
	}
	return leave, ok
}

// stranger is a connection that counts until it is closed, or a credential was verified on it.
type stranger struct {
	net.Conn
	of *Listener

	mu     sync.Mutex // guards the fields below
	leave  func()     // nil: it no longer counts
	proved func()     // from Of, for Verified to call; nil: nothing to call
}

// drop makes the connection no longer count.
func (s *stranger) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leave != nil {
		s.leave()
		s.leave = nil
	}
}

func (s *stranger) Close() error {
	s.drop()
	return s.Conn.Close()
}

// ReadFrom lets the kernel send a file, where it can.
func (s *stranger) ReadFrom(r io.Reader) (int64, error) { return io.Copy(s.Conn, r) }

type strangerKey struct{}

// ConnContext is for http.Server.ConnContext: it lets Verified find the connection.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = over.NetConn()
	}
	return context.WithValue(ctx, strangerKey{}, conn)
}

// Verified notes that a credential was verified for the request with this context, or one derived from it: the
// request's connection is no longer a stranger's.
func Verified(ctx context.Context) {
	s, ok := ctx.Value(strangerKey{}).(*stranger)
	if !ok {
		return
	}
	s.drop()
	s.mu.Lock()
	proved := s.proved
	s.mu.Unlock()
	if proved != nil {
		proved()
	}
}

// Of notes that a node of ours passed on the request with this context for a caller at the address a: the request's
// connection counts as one of a from now on. ok is false if a has too many. Verified will call proved.
func Of(ctx context.Context, a netip.Addr, proved func()) (ok bool) {
	s, is := ctx.Value(strangerKey{}).(*stranger)
	if !is {
		return true
	}
	leave, ok := s.of.enter(a)
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leave == nil { // it was closed meanwhile
		leave()
		return true
	}
	s.leave()
	s.leave, s.proved = leave, proved
	return true
}
