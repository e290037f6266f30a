package admin

import (
	"net"

	"golang.org/x/sys/unix"
)

// peer returns the user id at the other end of a socket; ok is false if it is not known.
func peer(c net.Conn) (uid int, ok bool) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *unix.Ucred
	if raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }) != nil || err != nil {
		return 0, false
	}
	return int(cred.Uid), true
}
