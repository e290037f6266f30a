package admin

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
)

// nobody is who a user is in a namespace that does not know them.
const nobody = 65534

// peerKey is where the context of a request has the number of the user at the other end of the socket.
type peerKey struct{}

// WithPeer is http.Server.ConnContext of a server at an admin socket: its requests know who asks.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	if uid, ok := peer(c); ok {
		return context.WithValue(ctx, peerKey{}, uid)
	}
	return ctx
}

// userKey is where the context of a request has the name of the user who asks, as another node of the cluster saw them.
type userKey struct{}

// WithUser is r, asked by user.
func WithUser(r *http.Request, user string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), userKey{}, user))
}

// caller is the name of the user who asks. Of root and of the server's own user it is what they say, for a command run by
// sudo says who ran that; of others what the system says, and what they say is marked where it does not know them.
func caller(r *http.Request) string {
	if user, elsewhere := r.Context().Value(userKey{}).(string); elsewhere {
		return user
	}
	uid, known := r.Context().Value(peerKey{}).(int)
	return called(uid, known, r.Header.Get(actorHeader))
}

func called(uid int, known bool, says string) string {
	if !known || uid == 0 || uid == os.Geteuid() {
		return says
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && uid != nobody {
		return u.Username
	}
	return says[:min(len(says), 64)] + " (by their own word)"
}
