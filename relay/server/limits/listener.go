package limits

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
)

// What strangers may hold open. A connection is a stranger's until a credential has been verified on it.
const (
	MaxStrangers = 1024
	// MaxOfAddress of them may be of one address: seven addresses cannot take all.
	MaxOfAddress = 128
)

// Listener is a listener that bounds the strangers' connections. Its methods may be called from any
// goroutine.
type Listener struct {
	net.Listener
	share   *Share
	trusted func(netip.Addr) bool // proxies, which dial for many: only the bound of all holds for them; nil: none
	refused func()                // called for each connection that was turned away
}

// NewListener makes a listener of l, whose connections are plain: TLS goes over it.
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
		if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok && (l.trusted == nil || !l.trusted(a.AddrPort().Addr())) {
			from = a.AddrPort().Addr()
		}
		if leave, ok := l.share.Enter(from); ok {
			return &stranger{Conn: conn, leave: sync.OnceFunc(leave)}, nil
		}
		l.refused()
		_ = conn.Close()
	}
}

// stranger is a connection that counts until it is closed, or its caller has proved to be somebody.
type stranger struct {
	net.Conn
	leave func()
}

func (s *stranger) Close() error {
	s.leave()
	return s.Conn.Close()
}

// ReadFrom lets the kernel send a file, where it can.
func (s *stranger) ReadFrom(r io.Reader) (int64, error) { return io.Copy(s.Conn, r) }

type strangerKey struct{}

// ConnContext is an http.Server's: it lets Verified find the connection.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = over.NetConn()
	}
	return context.WithValue(ctx, strangerKey{}, conn)
}

// Verified says that a credential has been verified for the request whose context this is, or is
// derived from: its connection is no stranger's from now on.
func Verified(ctx context.Context) {
	if s, ok := ctx.Value(strangerKey{}).(*stranger); ok {
		s.leave()
	}
}
