package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

// dialTime bounds the making of a connection to one of the DSN's hosts.
const dialTime = 5 * time.Second

// engine is a connection to PostgreSQL that is made anew after it broke. One statement runs at a time.
type engine struct {
	config *pgconn.Config
	turn   chan struct{} // holds one value while a statement runs, and so guards the fields below

	conn   *pgconn.PgConn // nil: none yet, or it broke
	warned string         // by the server, during the statement that runs
}

// engineConfig returns the configuration of a connection to dsn. A peer that confirms nothing for half a lease counts
// as gone, whether something was sent to it or not.
func engineConfig(dsn relay.Secret, lease time.Duration) (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig(string(dsn.Reveal()))
	if err != nil {
		return nil, errors.New("the engine's DSN cannot be read; it is as libpq's: postgres://USER:PASSWORD@HOST/DATABASE") // the error of pgconn may quote the DSN
	}
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: lease / 4, Interval: lease / 8, Count: 2}}
	dialer.Control = func(network, _ string, c syscall.RawConn) (err error) {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		set := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(lease.Milliseconds()/2))
		})
		return errors.Join(err, set)
	}
	config.DialFunc = dialer.DialContext
	config.ConnectTimeout = min(dialTime, lease/4)
	return config, nil
}

// newEngine makes an engine, which does not connect yet.
func newEngine(config *pgconn.Config) *engine {
	e := &engine{config: config.Copy(), turn: make(chan struct{}, 1)}
	e.config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		if notice.SeverityUnlocalized == "WARNING" {
			e.warned = notice.Message
		}
	}
	return e
}

// answer is the result of a statement.
type answer struct {
	cells [][][]byte // the columns of each row, as text, except bytea, which is raw
	rows  int64      // affected
}

// exec runs one statement; []byte arguments are bytea, all others text. After an error nobody knows whether it was
// carried out. A warning is such an error.
func (e *engine) exec(ctx context.Context, sql string, args ...any) (a answer, err error) {
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return a, ctx.Err()
	}
	defer func() { <-e.turn }()
	if e.conn == nil || e.conn.IsClosed() {
		if e.conn, err = pgconn.ConnectConfig(ctx, e.config); err != nil {
			e.conn = nil
			return a, fmt.Errorf("connect: %w", err) // without the password, says pgconn
		}
	}
	values, formats := make([][]byte, len(args)), make([]int16, len(args))
	for n, arg := range args {
		switch v := arg.(type) {
		case []byte:
			values[n], formats[n] = v, 1
		case string:
			values[n] = []byte(v)
		default:
			values[n] = fmt.Append(nil, v)
		}
	}
	e.warned = ""
	res := e.conn.ExecParams(ctx, sql, values, nil, formats, []int16{1}).Read()
	switch {
	case res.Err != nil:
		return a, res.Err
	case e.warned != "":
		return a, fmt.Errorf("confirmed with a warning: %s", e.warned)
	}
	return answer{cells: res.Rows, rows: res.CommandTag.RowsAffected()}, nil
}

// close closes the connection. If the engine does not answer within a second, it does not wait for the answer.
func (e *engine) close(ctx context.Context) {
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	if e.conn != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = e.conn.Close(ctx)
		e.conn = nil
	}
}

// number parses a number in a cell that was asked for as text.
func number(cell []byte) (uint64, error) { return strconv.ParseUint(string(cell), 10, 64) }

// pool has a few connections that many goroutines share; each statement has a connection to itself.
type pool struct {
	turns chan struct{} // holds one value for each statement that runs; its capacity is the number of connections

	mu   sync.Mutex
	idle []*engine // the last one was used last: so only as many are connected as are needed at once
}

// poolSize bounds the connections of a pool: without configuration PostgreSQL accepts 100 from all clients together.
const poolSize = 8

func newPool(config *pgconn.Config) *pool {
	p := &pool{turns: make(chan struct{}, poolSize)}
	for range poolSize {
		p.idle = append(p.idle, newEngine(config))
	}
	return p
}

// exec is engine.exec on a connection that is free; it waits for one.
func (p *pool) exec(ctx context.Context, sql string, args ...any) (answer, error) {
	select {
	case p.turns <- struct{}{}:
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	defer func() { <-p.turns }()
	p.mu.Lock()
	e := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.idle = append(p.idle, e)
	}()
	return e.exec(ctx, sql, args...)
}

// close closes the connections, which nobody uses any more.
func (p *pool) close(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.idle {
		e.close(ctx)
	}
}
