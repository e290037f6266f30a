package admin

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
)

// nobody is the user id that a process in a user namespace sees for all users that the namespace does not know.
const nobody = 65534

// peerKey is the context key for the user id at the other end of the socket.
type peerKey struct{}

// WithPeer is the http.Server.ConnContext of an admin socket. It adds the peer's user id to the context of requests.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	if uid, ok := peer(c); ok {
		return context.WithValue(ctx, peerKey{}, uid)
	}
	return ctx
}

// userKey is the context key for the user's name, if another node of the cluster determined it.
type userKey struct{}

// WithUser returns r with the name of the user who asks. It is for requests that another node hands through.
func WithUser(r *http.Request, user string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), userKey{}, user))
}

// caller returns the name of the user who asks.
func caller(r *http.Request) string {
	if user, elsewhere := r.Context().Value(userKey{}).(string); elsewhere {
		return user
	}
	uid, known := r.Context().Value(peerKey{}).(int)
	return nameOf(uid, known, r.Header.Get(actorHeader))
}

// nameOf returns the name of the user with the id uid; says is the name that the user gave. It believes that name if
// the user is root or the server's own user (a command under sudo gives the name of the person who ran it), or if the
// system does not tell the id. For everybody else it returns the system's name; if the system has none, it marks the
// given name as unproven.
func nameOf(uid int, known bool, says string) string {
	if !known || uid == 0 || uid == os.Geteuid() {
		return says
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && uid != nobody {
		return u.Username
	}
	return says[:min(len(says), 64)] + " (by their own word)"
}
