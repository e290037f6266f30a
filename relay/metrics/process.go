package metrics

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// The metrics of the runtime and the process have the names that they have in every Go program, so that dashboards made
// for Go programs work.
var goRuntimes = []struct {
	family family
	source string
}{
	{gauge("go_goroutines", "Goroutines that exist."), "/sched/goroutines:goroutines"},
	{gauge("go_sched_gomaxprocs_threads", "Threads that may run Go code at once."), "/sched/gomaxprocs:threads"},
	{gauge("go_memstats_heap_alloc_bytes", "Bytes of the objects on the heap, with dead ones that are not swept yet."), "/memory/classes/heap/objects:bytes"},
	{gauge("go_memstats_heap_released_bytes", "Bytes of the heap that were returned to the system."), "/memory/classes/heap/released:bytes"},
	{gauge("go_memstats_stack_inuse_bytes", "Bytes of the stacks."), "/memory/classes/heap/stacks:bytes"},
	{gauge("go_memstats_sys_bytes", "Bytes that the runtime has mapped."), "/memory/classes/total:bytes"},
	{gauge("go_memstats_next_gc_bytes", "Bytes of the heap at which the next collection ends."), "/gc/heap/goal:bytes"},
	{counter("go_memstats_alloc_bytes_total", "Bytes that were ever allocated on the heap."), "/gc/heap/allocs:bytes"},
	{counter("go_memstats_mallocs_total", "Objects that were ever allocated on the heap."), "/gc/heap/allocs:objects"},
	{counter("go_gc_cycles_total_gc_cycles_total", "Garbage collections that have ended."), "/gc/cycles/total:gc-cycles"},
}

// ticks is the kernel's USER_HZ: the unit of processor time in /proc is 1/ticks of a second. It is 100 on every
// architecture Go runs on.
const ticks = 100

// process shows the runtime and, where there is a /proc, the process.
func process(p page, start time.Time) {
	samples := make([]metrics.Sample, len(goRuntimes))
	for n, r := range goRuntimes {
		samples[n].Name = r.source
	}
	metrics.Read(samples)
	for n, r := range goRuntimes {
		if samples[n].Value.Kind() == metrics.KindUint64 {
			p.add(r.family, float64(samples[n].Value.Uint64()))
		}
	}
	p.add(gauge("go_info", "Always 1; the label says which Go built the program.", "version"), 1, runtime.Version())
	p.add(gauge("process_start_time_seconds", "When the process started, in seconds since 1970."), float64(start.UnixMilli())/1000)

	if raw, err := os.ReadFile("/proc/self/stat"); err == nil {
		if s, ok := parseStat(string(raw)); ok {
			p.add(counter("process_cpu_seconds_total", "Seconds of processor time, user and system."), s.cpu)
			p.add(gauge("process_virtual_memory_bytes", "Bytes of virtual memory."), s.virtual)
			p.add(gauge("process_resident_memory_bytes", "Bytes of resident memory."), s.pages*float64(os.Getpagesize()))
		}
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		p.add(gauge("process_open_fds", "File descriptors that are open."), float64(len(open)))
	}
	if raw, err := os.ReadFile("/proc/self/limits"); err == nil {
		if n, ok := maxFiles(string(raw)); ok {
			p.add(gauge("process_max_fds", "File descriptors that may be open."), n)
		}
	}
}

// stat is part of /proc/self/stat.
type stat struct {
	cpu     float64 // seconds
	virtual float64 // bytes
	pages   float64 // resident
}

// parseStat reads /proc/self/stat (proc(5)): the program's name stands in parentheses and may
// contain anything, also parentheses.
func parseStat(raw string) (stat, bool) {
	fields := strings.Fields(raw[strings.LastIndexByte(raw, ')')+1:]) // the first is field 3
	const utime, stime, vsize, rss = 14 - 3, 15 - 3, 23 - 3, 24 - 3
	if len(fields) <= rss {
		return stat{}, false
	}
	var values [rss + 1]float64
	for _, n := range []int{utime, stime, vsize, rss} {
		v, err := strconv.ParseUint(fields[n], 10, 64)
		if err != nil {
			return stat{}, false
		}
		values[n] = float64(v)
	}
	return stat{(values[utime] + values[stime]) / ticks, values[vsize], values[rss]}, true
}

// maxFiles reads the soft limit of open files from /proc/self/limits; false if there is none.
func maxFiles(raw string) (float64, bool) {
	for line := range strings.Lines(raw) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				n, err := strconv.ParseUint(fields[0], 10, 64)
				return float64(n), err == nil
			}
		}
	}
	return 0, false
}
