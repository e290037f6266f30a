package media

import (
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/fair"
)

// job is a file to fetch. While its fetch runs, nobody else uses its fields except id and done; before and after that
// the code that begins jobs uses them. jobs.mu guards running and cramped.
type job struct {
	id      relay.MediaID
	done    chan struct{} // closed when the file's state is final
	of      []fair.Owner  // of the instances whose entries need the file
	size    int64         // bytes for which it needs room; 0: its record was not read yet
	tried   int
	hosts   int       // hosted.changes at the last try that found no bot
	after   time.Time // it is not tried before that
	running bool
	cramped bool // it waits for room
}

// jobs are the files that are to be fetched, or are being fetched.
type jobs struct {
	poke poke // there may be something to begin; set once

	mu    sync.Mutex // guards the fields below
	by    map[relay.MediaID]*job
	queue []*job // the same, in the order they came
}

func newJobs() *jobs {
	return &jobs{poke: newPoke(), by: make(map[relay.MediaID]*job)}
}

// poke holds at most one value, which makes the receiver look once.
type poke chan struct{}

func newPoke() poke { return make(poke, 1) }

// wake makes the receiver of p look for work.
func (p poke) wake() {
	select {
	case p <- struct{}{}:
	default: // it will look anyway
	}
}

// add returns the job that fetches a file, and queues one if there is none.
func (q *jobs) add(id relay.MediaID) *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	j, ok := q.by[id]
	if !ok {
		j = &job{id: id, done: make(chan struct{})}
		q.by[id] = j
		q.queue = append(q.queue, j)
		q.poke.wake()
	}
	return j
}

// len returns how many jobs there are.
func (q *jobs) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.by)
}

// idle returns the jobs that do not run, in the order they came.
func (q *jobs) idle() []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(q.queue), func(j *job) bool { return j.running })
}

// begin notes that a job runs.
func (q *jobs) begin(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.running = true
}

func (q *jobs) isRunning(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return j.running
}

// again puts a job back, to be tried after a pause.
func (q *jobs) again(j *job, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.running, j.size, j.after = false, 0, time.Now().Add(pause)
	q.poke.wake()
}

// cramp notes whether a job waits for room.
func (q *jobs) cramp(j *job, is bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.cramped = is
}

func (q *jobs) isCramped(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return j.cramped
}

// finish ends a job: the state of its file is final.
func (q *jobs) finish(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.by[j.id] != j {
		return
	}
	delete(q.by, j.id)
	q.queue = slices.DeleteFunc(q.queue, func(x *job) bool { return x == j })
	close(j.done)
	q.poke.wake()
}
