package platformtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Person is somebody on the harness's network.
type Person int

// The people. Ann can see every place, and decides who reads Group. Bob is a member of no shared chat, and has a
// direct-message chat with the bot.
const (
	Ann Person = iota
	Bob
)

// Place is a chat on the harness's network.
type Place int

// The places. For a network without threads, Say in Thread returns an error that wraps errors.ErrUnsupported, and the
// suite skips the checks of threads. A network without shared chats says so with Lacks.Groups.
const (
	Direct Place = iota // the person's own direct-message chat with the bot
	Group               // a shared chat
	Twin                // a shared chat that has Group's name and numbers as far as possible, in another scope if there are scopes
	Thread              // a thread or topic of Group
)

// Received is one request of the bot that the network carried out.
type Received struct {
	Op   relay.Op
	Chat relay.ChatID
	Text string // of a send or edit, as a person would read it
}

// Harness is one network with one bot on it, fresh for every check. The suite calls its methods from one goroutine,
// while the bot's Run is running on another. A method returns once the network has acted, and does not wait for the bot
// to notice. Its error means that the harness itself broke.
type Harness interface {
	// Open makes the bot as its Network would, with Credential and with a log that Logged shows. The suite
	// calls it again, as a restart, after the Run of the previous bot returned.
	Open() (platforms.Bot, error)

	// Say makes a person write a text message (plain words, no command, no mention) in a place.
	Say(ctx context.Context, who Person, where Place, text string) error

	// Echo shows the bot one of its own messages in a place, on networks that send a bot its own messages.
	Echo(ctx context.Context, where Place, text string) error

	// Drop breaks the connection by which events come. The next attempt to connect succeeds. The network must keep the
	// messages that people write after the break.
	Drop(ctx context.Context) error

	// Revoke makes the network reject the credential from now on, and ends connections made with it.
	Revoke(ctx context.Context) error

	// BreakNextSend lets the network carry out the bot's next text message and then break the
	// connection without an answer.
	BreakNextSend(ctx context.Context) error

	// Received returns the bot's requests so far that the network carried out, oldest first, without those for polling
	// and connecting.
	Received() []Received

	// Credential is the bot's credential in the clear, which the suite searches for. If a bot has more than one, its Harness
	// returns the others from a method Further() []string.
	Credential() string

	// Logged is everything the bots logged so far, at every level.
	Logged() string
}

// Lacks says how a network differs from the common ones, so that the suite expects less of it or something else. A
// Harness without a method Lacks() Lacks means the zero value: a common network.
type Lacks struct {
	Groups     bool // it has no shared chats: the suite writes in Direct instead
	Revocation bool // it cannot reject the credential
	Lookup     bool // the bot can tell the kind of a chat without a request
	// Doubt: the network drops a repeated message, so the bot repeats a broken send until it is answered.
	Doubt bool
	// Hush: typing is shown in threads only.
	Hush bool
	// Wide: the advertised length counts bytes, so characters of several bytes count for more than one.
	Wide bool
	// Handed: the network never repeats an event that it has handed over. A bot that dies loses events that it has not
	// stored.
	Handed bool
	// Standing: buttons cannot be taken off a message.
	Standing bool
}

// lacks returns how h's network differs from the common ones.
func lacks(h Harness) (l Lacks) {
	if h, ok := h.(interface{ Lacks() Lacks }); ok {
		l = h.Lacks()
	}
	return l
}

// shared returns a place where several people write on h's network.
func shared(h Harness) Place {
	if lacks(h).Groups {
		return Direct
	}
	return Group
}

// Log collects a platform's log lines of every level. The zero value is ready.
type Log struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

// Logger writes into l, one line of text per record.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
}

// Write appends p. It never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns everything logged so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// HoldPort finds a port of 127.0.0.1 for a server in another process that cannot pick one itself, or must return to the
// same one. Until release is called, the system gives nobody that port by chance; a server that asks for it may listen
// on it. While none does, connections are refused.
func HoldPort() (port int, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("hold a port: %w", err)
	}
	syscall.CloseOnExec(fd)
	// Bound, and not listening: servers set the same option, and so may bind beside it.
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
	)
	at, nameErr := syscall.Getsockname(fd)
	addr, ok := at.(*syscall.SockaddrInet4)
	if err = errors.Join(err, nameErr); err != nil || !ok {
		_ = syscall.Close(fd)
		return 0, nil, fmt.Errorf("hold a port: %w", err)
	}
	return addr.Port, func() { _ = syscall.Close(fd) }, nil
}
