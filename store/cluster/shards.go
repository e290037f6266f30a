package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
)

const (
	// surplusAfter is how long a node leads more than its share before it gives some of it up.
	surplusAfter = 10 * time.Minute
	// restsFor is how long a node does not lead a shard after its Run failed there.
	restsFor = 30 * time.Second
	// fillsAtOnce is how many files a node brings to the end of their logs side by side.
	fillsAtOnce = 4
)

// Shard is a shard that the nodes share. All fields must be set.
type Shard struct {
	Name   string
	Weight float64 // above 0: how much work it is for its leader, relative to the other shards
	Path   string  // of its file at this node
	File   boltfile.Options
	// Opens returns why this node cannot open the shard's vault, and so does not lead the shard; nil: it can. wrapped
	// is the data key that Lead.KeepVault stored last.
	Opens func(ctx context.Context, wrapped []byte) error
	// Run serves the shard until ctx ends, and returns when its file is closed. context.Cause(ctx) is why Run is to
	// end. After an error the node gives the shard up, and does not lead it for some time.
	Run func(ctx context.Context, l *Lead) error
}

// givenUp is the cause of a context that ended because another node is to lead the shard. errors.Is still finds
// context.Canceled.
type givenUp struct{ why string }

func (g givenUp) Error() string { return "another node is to lead: " + g.why }

func (givenUp) Is(err error) bool { return err == context.Canceled }

// leads is a node's work with its shards.
type leads struct {
	n       *Node
	shards  []Shard
	filling chan struct{} // holds one value for each shard that is being taken; its capacity is fillsAtOnce
	wg      sync.WaitGroup

	warm sync.Mutex // held while copies are brought to the ends of their logs

	// Only look uses these.
	freeSince map[string]time.Time // by shard: when it was first seen without a leader
	overSince time.Time            // since when this node leads more than its share; zero: it does not

	mu    sync.Mutex
	held  map[string]*held     // by name: the shards that this node leads, or is about to
	rests map[string]time.Time // by name: until when this node does not lead a shard whose Run failed
	said  map[string]string    // the last line that the log got about each shard
}

// held is a shard that this node leads, or is about to.
type held struct {
	end  context.CancelCauseFunc // ends the context of Shard.Run
	lead *Lead                   // nil: the node does not lead it yet
}

// Lead leads those of shards that fall to this node, until ctx ends: then it returns as soon as all its shards are
// closed. After a failure, of the engine or of a shard, it tries again.
func (n *Node) Lead(ctx context.Context, shards []Shard) error {
	for _, s := range shards { // before the first renewal of the lease: it shows other nodes which node has most
		if h, err := boltfile.HistoryAt(s.Path, s.File); err == nil {
			n.report.isAt(s.Name, h.N)
		}
	}
	ls := &leads{
		n: n, shards: shards, filling: make(chan struct{}, fillsAtOnce),
		held: make(map[string]*held), rests: make(map[string]time.Time), freeSince: make(map[string]time.Time), said: make(map[string]string),
	}
	for {
		if n.Alive() { // otherwise Run reports it
			if err := ls.look(ctx); err != nil && ctx.Err() == nil {
				ls.say("", ls.n.o.Log.Warn, "who leads cannot be seen", "err", err)
			}
		}
		if sleep(ctx, lookEvery) != nil {
			break
		}
	}
	ls.wg.Wait()
	return n.shutCopies()
}

// look reads the nodes and the leaders, begins to lead the shards that fall to this node, and gives up those that no
// longer do.
func (ls *leads) look(ctx context.Context) error {
	led := ls.led() // before view: a lead that the engine confirms later would seem to be another process's
	nodes, pieces, leaders, err := ls.view(ctx)
	if err != nil {
		return err
	}
	turns, me := place(nodes, pieces), ls.n.o.Node
	ls.follow(ctx, nodes, pieces)
	now := time.Now()
	for n, s := range ls.shards {
		turn := slices.Index(turns[s.Name], me)
		switch p := pieces[n]; { // view returns the pieces in the order of ls.shards
		case led[s.Name] != nil && leaders[s.Name].held != ls.n.me():
			led[s.Name].lose()
			ls.giveUp(s.Name, "another process took the lead")
		case leaders[s.Name].former == ls.n.me() && !ls.holds(s.Name): // giveUp failed when its Run had ended
			if err := ls.n.giveUp(ctx, s.Name, ""); err != nil {
				return err
			}
		case p.leader != "":
			delete(ls.freeSince, s.Name)
			switch {
			case p.leader != me:
				ls.n.report.trouble(s.Name, nil) // only this node may have had that trouble
				ls.say(s.Name, ls.n.o.Log.Info, "another node leads; this one waits", "leader", p.leader)
			case !ls.holds(s.Name): // giveUp failed when its Run had ended
				if err := ls.n.giveUp(ctx, s.Name, ""); err != nil {
					return err
				}
			case !slices.Contains(nodes, me):
				ls.giveUp(s.Name, "it is drained")
			case p.wanted != "" && p.wanted != me && slices.Contains(nodes, p.wanted):
				ls.giveUp(s.Name, s.Name+" is moved to "+p.wanted)
			}
		case turn >= 0:
			since, known := ls.freeSince[s.Name]
			if !known {
				since = now
				ls.freeSince[s.Name] = now
			}
			if now.Sub(since) >= time.Duration(turn)*lookEvery {
				ls.take(ctx, s)
			}
		}
	}
	given := surplus(me, nodes, pieces)
	switch {
	case len(given) == 0:
		ls.overSince = time.Time{}
	case ls.overSince.IsZero():
		ls.overSince = now
	case now.Sub(ls.overSince) >= surplusAfter:
		ls.overSince = time.Time{}
		for _, s := range given {
			ls.giveUp(s, "it has led more than its share for ten minutes")
		}
	}
	return nil
}

// follow brings the copies of those shards further that this node would lead if their leaders died. It does that in a
// goroutine of its own, unless the last one still runs.
func (ls *leads) follow(ctx context.Context, nodes []string, pieces []piece) {
	var copied []Shard
	for n, p := range pieces { // of ls.shards, in their order
		if next(p.shard, p.leader, nodes) == ls.n.o.Node && !ls.holds(p.shard) {
			copied = append(copied, ls.shards[n])
		}
	}
	if len(copied) == 0 || !ls.warm.TryLock() {
		return
	}
	ls.wg.Go(func() {
		defer ls.warm.Unlock()
		if err := ls.n.follow(ctx, copied...); err != nil && ctx.Err() == nil {
			ls.say("", ls.n.o.Log.Warn, "a copy does not follow its log", "err", err)
		}
	})
}

// view returns the living nodes that may lead shards, a piece for each of ls.shards, in their order, and the leaders of
// all shards. It makes a row in the engine for a shard that has none yet.
func (ls *leads) view(ctx context.Context) (nodes []string, pieces []piece, leaders map[string]leader, err error) {
	asked := ls.n.now()
	if nodes, leaders, err = whoLeads(ctx, ls.n.look); err != nil {
		return nil, nil, nil, err
	}
	ls.n.mu.Lock()
	ls.n.leaders, ls.n.lookedAt = maps.Clone(leaders), asked // a copy, because giveUp deletes from it
	ls.n.mu.Unlock()
	for _, s := range ls.shards {
		l, known := leaders[s.Name]
		if !known {
			if _, err := ls.n.look.exec(ctx, makeSQL, s.Name); err != nil {
				return nil, nil, nil, err
			}
		}
		pieces = append(pieces, piece{shard: s.Name, weight: s.Weight, leader: l.name, wanted: l.wanted})
	}
	return nodes, pieces, leaders, nil
}

// take begins to make this node the leader of s, in a goroutine of its own, unless that has begun already or s rests
// after a failure. That goroutine then serves s until the lead ends.
func (ls *leads) take(ctx context.Context, s Shard) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.held[s.Name] != nil || time.Now().Before(ls.rests[s.Name]) {
		return
	}
	ctx, end := context.WithCancelCause(ctx)
	h := &held{end: end}
	ls.held[s.Name] = h
	ls.wg.Go(func() {
		defer func() {
			end(nil)
			ls.mu.Lock()
			defer ls.mu.Unlock()
			delete(ls.held, s.Name)
		}()
		ls.filling <- struct{}{}
		l, err := ls.n.take(ctx, s)
		<-ls.filling
		if ctx.Err() == nil {
			ls.n.report.trouble(s.Name, err)
		}
		switch {
		case err != nil && ctx.Err() == nil:
			ls.say(s.Name, ls.n.o.Log.Warn, "the shard cannot be led yet", "err", err)
		case l != nil:
			ls.leads(h, l)
			if err := l.serve(ctx, s); err != nil {
				ls.n.report.trouble(s.Name, err)
				rests := restsFor
				if errors.Is(err, ErrFenced) { // this node works, and may be the only one that has all entries
					rests = 0
				}
				ls.n.o.Log.Error("this node no longer leads, because its server failed", "shard", s.Name, "again_in", rests, "err", err)
				ls.mu.Lock()
				defer ls.mu.Unlock()
				ls.rests[s.Name] = time.Now().Add(rests)
			}
		}
	})
}

// giveUp ends this node's lead of a shard, for another node.
func (ls *leads) giveUp(shard, why string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if h := ls.held[shard]; h != nil {
		h.end(givenUp{why})
	}
}

// leads notes that the shard h is led now.
func (ls *leads) leads(h *held, l *Lead) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	h.lead = l
}

// led returns, by shard, the leads of this node that the engine has confirmed.
func (ls *leads) led() map[string]*Lead {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	led := make(map[string]*Lead)
	for shard, h := range ls.held {
		if h.lead != nil {
			led[shard] = h.lead
		}
	}
	return led
}

// holds reports whether this node leads the shard, or is about to.
func (ls *leads) holds(shard string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.held[shard] != nil
}

// say writes a line to the log, unless it was also the last line about the shard; shard is empty if the line is not
// about a single shard.
func (ls *leads) say(shard string, log func(string, ...any), words string, args ...any) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if all := words + fmt.Sprint(args...); ls.said[shard] != all {
		ls.said[shard] = all
		if shard != "" {
			args = append(args, "shard", shard)
		}
		log(words, args...)
	}
}

// serve runs s until ctx ends or Run fails, and then gives the shard up, with the reason.
func (l *Lead) serve(ctx context.Context, s Shard) error {
	err := s.Run(ctx, l)
	why := "its server failed"
	if err == nil {
		why = context.Cause(ctx).Error()
		if g, ok := errors.AsType[givenUp](context.Cause(ctx)); ok {
			why = g.why
		}
	}
	l.node.copyOf(s.Name).back()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if notGiven := l.node.giveUp(ctx, s.Name, l.node.o.Node+" let go: "+why); notGiven != nil {
		l.node.o.Log.Warn("the lead was not given up yet", "shard", s.Name, "err", notGiven)
	}
	l.node.leading.Add(-1)
	return err
}

// giveUpSQL does not change the reason if another leader has the shard already.
const giveUpSQL = `UPDATE hermes_connector.shard SET why = CASE WHEN leader <> $2 OR $3 = '' THEN why ELSE $3 END,
	leader = CASE leader WHEN $2 THEN '' ELSE leader END, former = CASE former WHEN $2 THEN '' ELSE former END WHERE shard = $1 AND (leader = $2 OR former = $2)`

// giveUp lets another node lead the shard. why is the reason for the next change of leader; empty: the reason of the
// last change stays.
func (n *Node) giveUp(ctx context.Context, shard, why string) error {
	_, err := n.look.exec(ctx, giveUpSQL, shard, n.me(), why)
	if err == nil {
		n.mu.Lock()
		delete(n.leaders, shard) // until it is seen who leads now
		n.mu.Unlock()
	}
	return err
}
