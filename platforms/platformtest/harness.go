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

// The people. Ann can see every place, and decides who reads Group. Bob is a member of no shared chat, and has
// a direct-message chat with the bot.
const (
	Ann Person = iota
	Bob
)

// Place is where people write on the harness's network.
type Place int

// The places. For a network without threads, Say in Thread returns an error that wraps
// errors.ErrUnsupported; the suite then leaves that part out. Of a network without shared chats see Lacks.
const (
	Direct Place = iota // the person's own direct-message chat with the bot
	Group               // a shared chat
	Twin                // a shared chat with Group's name and numbers, as far as possible, in another scope if there are scopes
	Thread              // a thread or topic of Group
)

// Received is one request of the bot's that the network carried out.
type Received struct {
	Op   relay.Op
	Chat relay.ChatID
	Text string // of a send or edit, as a person would read it
}

// Harness is one network with one bot on it, fresh for every check. The suite calls its methods from one
// goroutine, while the bot's Run is running on another. A method returns once the network has done what was
// asked, and does not wait for the bot to notice. Its error means that the harness itself broke.
type Harness interface {
	// Open makes the bot as its Network would, with Credential and with a log that Logged shows. The suite
	// calls it again, as a restart, after the Run of the bot before returned.
	Open() (platforms.Bot, error)

	// Say makes a person write a text message (plain words, no command, no mention) in a place.
	Say(ctx context.Context, who Person, where Place, text string) error

	// Echo shows the bot a message of its own in a place, as networks do that send a bot what it wrote.
	Echo(ctx context.Context, where Place, text string) error

	// Drop breaks the bot's connection, the one events come on. The next attempt to connect
	// works. What is said afterwards must not get lost in the network.
	Drop(ctx context.Context) error

	// Revoke makes the network reject the credential from now on, and ends connections made with it.
	Revoke(ctx context.Context) error

	// BreakNextSend lets the network carry out the bot's next text message and then break the
	// connection without an answer.
	BreakNextSend(ctx context.Context) error

	// Received lists what the network carried out for the bot so far, oldest first, without polling and
	// connecting.
	Received() []Received

	// Credential is the bot's credential in the clear, which the suite searches for. If a bot has more than one, its Harness
	// returns the others from a method Further() []string.
	Credential() string

	// Logged is everything the bots logged so far, at every level.
	Logged() string
}

// Lacks says what a network cannot do that most can. A Harness without a method Lacks() Lacks lacks nothing.
type Lacks struct {
	Groups     bool // it has no shared chats: the suite writes in Direct instead
	Revocation bool // it cannot reject the credential
	Lookup     bool // the bot knows what a chat is without a request
	// Doubt: the network drops a repeated message, so the bot repeats a broken send until it is answered.
	Doubt bool
	// Hush: typing is shown in threads only.
	Hush bool
	// Wide: the advertised length counts bytes, so characters of several bytes count for more than one.
	Wide bool
	// Handed: the network never repeats what it has handed over. A bot that dies loses what it has not stored.
	Handed bool
	// Standing: buttons cannot be taken off a message.
	Standing bool
}

// lacks is what h's network lacks.
func lacks(h Harness) (l Lacks) {
	if h, ok := h.(interface{ Lacks() Lacks }); ok {
		l = h.Lacks()
	}
	return l
}

// shared is where people write to each other on h's network.
func shared(h Harness) Place {
	if lacks(h).Groups {
		return Direct
	}
	return Group
}

// Log collects what a platform logs, at every level. The zero value is ready.
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

// String is everything logged so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// HoldPort finds a port of 127.0.0.1 for a server in another process, which cannot pick one itself or must
// come back on the same one. Until release is called the system gives nobody that port by chance; a server
// that asks for it may listen on it. While none does, connections are refused.
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
