package admin

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
)

// nobody is the number by which a user namespace shows users that are not mapped into it.
const nobody = 65534

// peerKey is the context key of the number of the user at the other end of the socket.
type peerKey struct{}

// WithPeer is the http.Server.ConnContext at an admin socket. It adds the user's number to the context of requests.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	if uid, ok := peer(c); ok {
		return context.WithValue(ctx, peerKey{}, uid)
	}
	return ctx
}

// userKey is the context key of the name of the user who asks, where another node of the cluster found it out.
type userKey struct{}

// WithUser returns r with the user who asks, for a request that another node hands through.
func WithUser(r *http.Request, user string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), userKey{}, user))
}

// caller is the name of the user who asks.
func caller(r *http.Request) string {
	if user, elsewhere := r.Context().Value(userKey{}).(string); elsewhere {
		return user
	}
	uid, known := r.Context().Value(peerKey{}).(int)
	return nameOf(uid, known, r.Header.Get(actorHeader))
}

// nameOf is the name of the user uid, who says that their name is says. Root, the server's own user, and whoever the system does
// not tell are believed: a command under sudo names the person who ran it. Of others the system's name counts; if it has
// none, what they say is marked.
func nameOf(uid int, known bool, says string) string {
	if !known || uid == 0 || uid == os.Geteuid() {
		return says
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && uid != nobody {
		return u.Username
	}
	return says[:min(len(says), 64)] + " (by their own word)"
}
