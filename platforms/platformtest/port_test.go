package platformtest

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
)

func TestHeldPort(t *testing.T) {
	port, release, err := HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for range 2 { // a server, and the one that comes after it
		if c, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			if err == nil {
				_ = c.Close()
			}
			t.Errorf("dialled while nobody listens: %v, want it refused", err)
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Close(), l.Close()); err != nil {
			t.Error(err)
		}
	}
}
