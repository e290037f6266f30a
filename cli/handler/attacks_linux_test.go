package handler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// attack is what a program might try: a script of the shell or of Perl that says WON, or shows a canary, when it got where it should
// not. It knows the stage: where things are, and which processes run.
type attack struct {
	name, script string
	// alone says what it does without a cage.
	alone alone
}

type alone int

const (
	loses   alone = iota // nothing: other things than the cage stop it
	wins                 // it succeeds: so the help topic says
	depends              // that is up to the machine
	never                // it would end the test
)

// endless is in the name of what does not end by itself.
const endless = ", endless"

// attacks are the programs. Their arguments are variables of the shell, and of Perl's %a.
var attacks = []attack{
	// Files.
	{"the credential", `cat $cred`, wins},
	{"the runner's key", `cat $state/key | tr -d '\0'; test -r $state/key && echo WON`, wins},
	{"the journal", `cat $state/journal`, wins},
	{"the handlers' file", `cat $toml`, wins},
	{"another thread", `cat $other/secret`, wins},
	{"all threads", `cat $state/threads/*/*`, wins},
	{"what lies above its folder", `ls -a .. | grep -q threads && echo WON; cat ../*/secret ../../key ../../journal`, wins},
	{"another handler's folder", `cat $shelf/secret`, wins},
	{"the operator's files", `cat $home/secret`, wins},
	{"a link to the credential", `ln -s $cred l; cat l`, wins},
	{"a link to the runner's folder", `ln -s $state l; cat l/journal l/threads/*/secret`, wins},
	{"a hard link", `ln $cred l; cat l`, wins},
	{"who has an account here", `grep -q . /etc/passwd /etc/group && echo WON`, wins},
	{"what is in the other temporary files", `cat $tmp`, wins},
	{"shared memory", `cat $shm`, wins},
	{"changing what another reads", `echo changed > $shelf/secret`, wins},
	{"its own program", `echo : >> $0 && echo WON`, wins},
	{"the machine's programs", `for f in /usr /usr/bin /bin /lib /etc /; do touch $f/won && echo WON; done`, loses},
	{"devices", `ls /dev | grep -v -x -e null -e zero -e full -e random -e urandom -e tty -e shm -e pts -e ptmx -e fd -e stdin -e stdout -e stderr -e core -e console && echo WON`, depends},
	{"the kernel's own files", `ls /sys/* >/dev/null && echo WON; for f in /proc/sys/kernel/hostname /proc/sys/kernel/core_pattern /proc/sysrq-trigger; do (echo x > $f) && echo WON; done`, depends},
	{"a device of its own", `mknod d b 8 0 && echo WON; mknod d c 1 1 && echo WON`, loses},

	// What the runner was started with.
	{"its own environment", `perl: for (keys %ENV) { print "WON $_\n" unless /^(PATH|LANG|HANDLER_THREAD_ID|PWD)$/ }`, loses},
	{"the environment of the first process", `tr '\0' '\n' < /proc/1/environ | grep = && echo WON`, depends},
	{"the environment of others", `cat /proc/[2-9]/environ /proc/$pid/environ /proc/$runner/environ | tr '\0' '\n'`, wins},
	{"command lines", `cat /proc/[0-9]*/cmdline | tr '\0' '\n' | grep canary-line`, wins},
	{"descriptors", `perl: for (</proc/self/fd/*>) { my $t = readlink; print "WON $_ $t\n" unless m{/[012]$} || !defined $t || $t eq $0 || $t =~ m{^/proc/} }`, loses},
	{"the descriptors of others", `for f in /proc/[0-9]*/fd/*; do test -f $f && cat $f; done`, wins},
	{"folders of others", `cat /proc/[0-9]*/root$cred /proc/[0-9]*/cwd/handlers.toml`, wins},
	{"memory of others", `perl: for my $p (1 .. 50, $a{pid}, $a{runner}) { next if $p == $$;
		open(my $m, "<", "/proc/$p/maps") or next; open(my $d, "<", "/proc/$p/mem") or next;
		while (<$m>) { /^([0-9a-f]+)-([0-9a-f]+) rw/ or next; my ($x, $y) = (hex $1, hex $2); next if $y - $x > 1 << 26;
			sysseek($d, $x, 0); sysread($d, my $b, $y - $x); print "$1\n" while $b && $b =~ /(canary-[a-z]+-[0-9a-f]{8})/g } }`, depends},
	{"ptrace", `perl: my %n = (x86_64 => 101, aarch64 => 117); my $n = $n{(POSIX::uname())[4]} or exit; print "WON" if syscall($n, 16, $a{pid}, 0, 0) == 0`, depends},
	{"the keys of the session", `perl: my %n = (x86_64 => 250, aarch64 => 219); my $n = $n{(POSIX::uname())[4]} or exit;
		my $k = syscall($n, 10, -3, my $t = "user\0", my $d = "runner-canary\0", 0); my $b = "\0" x 100; print "$b\n" if $k > 0 && syscall($n, 11, $k, $b, 100) > 0`, depends},

	// Other processes.
	{"a signal to a neighbour", `kill -9 $pid && echo WON`, wins},
	{"signals to all it sees", `perl: for my $p (map { m{(\d+)} } </proc/[0-9]*>) { kill 9, $p if $p != $$ && $p > 1 }`, never},
	{"signals to all numbers", `perl: for my $p (2 .. 70000) { kill 9, $p if $p != $$ }`, never},
	{"a signal to its group", `kill -9 0`, loses},
	{"a signal to everybody", `kill -9 -1`, never},
	{"signals to its parents", `kill -9 1 $PPID $runner`, never},
	{"stopping the runner", `kill -STOP 1 $PPID $runner`, never},
	{"the group of the runner", `perl: setpgrp(0, getpgrp($a{runner})) and print "WON"; kill -9, getpgrp($a{runner}) if getpgrp($a{runner}) > 1`, never},
	{"priority", `renice -n 19 -p $pid && echo WON`, wins},

	// The network.
	{"TCP", `perl: socket(my $s, 2, 1, 0); connect($s, sockaddr_in($a{port}, inet_aton("127.0.0.1"))) and print "WON"`, wins},
	{"TCP 6", `perl: socket(my $s, 10, 1, 0); connect($s, pack_sockaddr_in6($a{port6}, inet_pton(10, "::1"))) and print "WON"`, depends},
	{"UDP", `perl: socket(my $s, 2, 2, 0); send($s, "hello", 0, sockaddr_in($a{udp}, inet_aton("127.0.0.1")))`, wins},
	{"an abstract socket", `perl: socket(my $s, 1, 1, 0); connect($s, pack_sockaddr_un("\0$a{abstract}")) and print "WON"`, wins},
	{"a socket in a folder", `perl: socket(my $s, 1, 1, 0); connect($s, pack_sockaddr_un($a{sock})) and print "WON"`, wins},
	{"a socket through another process", `perl: for my $r (</proc/[0-9]*/root>) { socket(my $s, 1, 1, 0); connect($s, pack_sockaddr_un("$r$a{sock}")) and print "WON" }`, wins},
	{"interfaces", `grep -v -e '|' -e '^ *lo:' /proc/net/dev && echo WON`, depends},
	{"who listens here", `grep -i $(printf :%04X $port) /proc/net/tcp && echo WON; grep $abstract /proc/net/unix && echo WON`, wins},
	{"a raw socket", `perl: socket(my $s, 2, 3, 1) and print "WON"; socket(my $t, 17, 3, 768) and print "WON"`, loses},

	// Rights.
	{"a user namespace", `unshare -Ur true && echo WON`, depends},
	{"other namespaces", `for n in -m -p -n -i -u; do unshare $n true && echo WON; done`, loses},
	{"the namespaces of others", `for p in /proc/[0-9]*; do nsenter --mount=$p/ns/mnt cat $cred; done`, loses},
	{"a mount", `mount -t tmpfs x /tmp && echo WON; mount -o remount,rw / && echo WON; mount -o remount,rw /usr && echo WON; mount --bind / /tmp && echo WON`, loses},
	{"unmounting", `umount -l /thread && echo WON; umount -l /proc && echo WON; umount -l /usr && echo WON`, loses},
	{"another root", `chroot /proc/1/root cat $cred && echo WON; chroot . && echo WON`, loses},
	{"capabilities", `grep -E 'Cap(Inh|Prm|Eff|Amb):.*[1-9a-f]' /proc/self/status && echo WON`, loses},
	{"new rights", `grep -E 'NoNewPrivs:.0' /proc/self/status && echo WON`, depends},
	{"more than its limits", `ulimit -Hv 2000000 && echo WON; ulimit -Hf 4000000 && echo WON; ulimit -Hc 100 && echo WON`, loses},
	{"the runner's limits", `prlimit --pid $runner --nofile=0:0 && echo WON`, never},
	{"the terminal", `perl: for (qw(/dev/tty /dev/console /dev/tty1 /dev/pts/0)) { open(my $t, "+<", $_) or next; print "WON" if ioctl($t, 0x5412, "x") }`, never},

	// Bombs.
	{"forks", `perl: for (1 .. 300) { fork }`, never},
	{"many processes", `perl: my $n = 0; for (1 .. 100) { my $p = fork; last if !defined $p; if (!$p) { sleep 20; exit } $n++ } print "WON $n" if $n > 64; kill 9, -getpgrp() if $n > 64`, wins},
	{"memory", `perl: my $x = "x" x (600 << 20); print "WON"`, loses},
	{"a large file", `head -c 68000000 /dev/zero > big; test $(wc -c < big) -gt 67108864 && echo WON`, loses},
	{"its temporary files", `for d in /tmp /dev/shm; do for i in 1 2; do head -c 40000000 /dev/zero > $d/$mark.$i; done; done
		test $(cat /tmp/$mark.* | wc -c) -gt 70000000 && echo WON; test $(cat /dev/shm/$mark.* | wc -c) -gt 20000000 && echo WON; rm -f /tmp/$mark.* /dev/shm/$mark.*`, wins},
	{"output", `yes`, loses},
	{"errors", `yes | head -c 50000000 >&2`, loses},
	{"time" + endless, `while :; do :; done`, loses},
	{"sleep" + endless, `sleep 600`, loses},
	{"a stopped process" + endless, `kill -STOP $$`, loses},

	// What is to stay behind. Each holds the pipe, and ends by itself.
	{"a child in the background", `perl: hold(); if (!fork) { stay() } print "ok\n"`, loses},
	{"a child with its own session", `perl: hold(); if (!fork) { POSIX::setsid(); exit if fork; stay() } wait; print "ok\n"`, wins},
	{"a child that closes everything", `perl: hold(); if (!fork) { POSIX::setsid(); exit if fork; POSIX::close($_) for 0 .. 2; stay() } wait; print "ok\n"`, wins},
	{"a child that no signal ends", `perl: hold(); if (!fork) { POSIX::setsid(); $SIG{$_} = "IGNORE" for qw(TERM HUP INT QUIT PIPE USR1 USR2 TSTP TTIN TTOU); exit if fork; stay() } wait; print "ok\n"`, wins},
	{"a child that outlives its time" + endless, `perl: hold(); if (!fork) { POSIX::setsid(); exit if fork; stay() } wait; sleep 600`, depends},
	{"many children", `perl: hold(); for (1 .. 30) { if (!fork) { POSIX::setsid(); stay() } } print "ok\n"`, wins},
	{"a family that keeps forking", `perl: hold(); if (!fork) { POSIX::setsid(); while (1) { exit if fork } } wait; print "ok\n"`, never},
}

// perlHead is what the Perl scripts begin with.
const perlHead = `#!/usr/bin/perl
use Socket qw(:DEFAULT inet_pton pack_sockaddr_in6); use POSIX ();
our %a = map { split /=/, $_, 2 } @ARGV; $| = 1;
our $h; sub hold { open($h, ">", $a{pipe}) or exit }
sub stay { sleep 20; exit }
`

// shellHead is what the shell scripts begin with.
const shellHead = "#!/bin/sh\nfor v; do eval \"${v%%=*}='${v#*=}'\"; done\n"

// TestAttacks: in its cage no program gets anywhere. That the programs are worth something, they show without one.
func TestAttacks(t *testing.T) {
	if inOwnProcess(t) {
		return
	}
	tools := findTools(t)
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			s := newStage(t)
			s.tools = tools
			h := s.handler(a.name, a.script)
			if strings.HasSuffix(a.name, endless) {
				h.Timeout = time.Second
			}
			if loot, r := s.run(h); loot != "" {
				t.Errorf("in the cage it succeeds: %s\n%s %s", loot, r.cause, r.said)
			}
			if a.alone == never {
				return
			}
			h.Uncaged = true
			if loot, r := s.run(h); a.alone == wins && loot == "" || a.alone == loses && loot != "" {
				t.Errorf("without a cage: %q\n%s %s", loot, r.cause, r.said)
			}
			runtime.KeepAlive(s.memory)
		})
	}
}

// findTools are the tools of a cage, and there is Perl.
func findTools(t *testing.T) Tools {
	t.Helper()
	tools, err := FindTools(t.Context(), &Config{Handlers: []*Handler{{}}})
	if err == nil {
		_, err = os.Stat("/usr/bin/perl")
	}
	if err != nil {
		t.Skipf("no cage can be tried here: %v", err)
	}
	return tools
}

// killedName is in the environment of the runner that TestAKilledRunnerLeavesNothing kills.
const killedName = "HANDLER_TEST_KILLED"

// TestAKilledRunnerLeavesNothing: when the runner is killed, all that its program has started ends with it.
func TestAKilledRunnerLeavesNothing(t *testing.T) {
	tools := findTools(t)
	if words := strings.Fields(os.Getenv(killedName)); len(words) > 0 {
		tools.run(t.Context(), &Handler{Run: words[2:], Timeout: maxTimeout, Write: words[1:2]}, "", words[0], nil)
		return
	}
	s := newStage(t)
	h := s.handler("killed", `perl: hold(); for (1 .. 10) { if (!fork) { POSIX::setsid(); $SIG{TERM} = "IGNORE"; exit if fork; syswrite($h, "x"); stay() } } sleep 60`)
	dir, err := s.state.folder("a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	runner := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	runner.Env = append(os.Environ(), killedName+"="+strings.Join(append([]string{dir, h.Write[0]}, h.Run...), " "))
	if err := runner.Start(); err != nil {
		t.Fatal(err)
	}
	came := 0
	read := func(atMost time.Duration) (n int, err error) {
		if n, err = unix.Poll([]unix.PollFd{{Fd: int32(s.pipe), Events: unix.POLLIN}}, int(atMost.Milliseconds())); n == 0 && err == nil {
			err = errors.New("nothing came")
		}
		if err != nil {
			return 0, err
		}
		return unix.Read(s.pipe, make([]byte, 10))
	}
	for came < 10 {
		n, err := read(time.Minute)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			t.Fatalf("%d of its children began: %v", came, err)
		}
		came += n
	}
	if err := errors.Join(runner.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = runner.Wait()
	n, err := read(goneWithin)
	for errors.Is(err, syscall.EINTR) {
		n, err = read(goneWithin)
	}
	if n != 0 || err != nil { // at its end nobody holds the other end
		t.Errorf("its children live on: %v", err)
	}
}

// halfName is in the environment of the runner that TestAKilledRunnerLeavesNoHalfCage kills: its folder.
const halfName = "HANDLER_TEST_HALF"

// TestAKilledRunnerLeavesNoHalfCage: nor what bwrap has begun that was still making the cage.
func TestAKilledRunnerLeavesNoHalfCage(t *testing.T) {
	if dir := os.Getenv(halfName); dir != "" {
		Tools{bwrap: dir + "/bwrap"}.run(t.Context(), &Handler{Run: []string{"/usr/bin/true"}, Timeout: maxTimeout}, "", dir, nil)
		return
	}
	dir := folder(t, map[string]string{"bwrap": "#!/bin/sh\nsleep 600 &\n: >\"${0%/*}/begun\"\nwait\n"})
	runner := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	runner.Env = append(os.Environ(), halfName+"="+dir)
	if err := runner.Start(); err != nil {
		t.Fatal(err)
	}
	group := 0
	for range 6000 {
		if _, err := os.Stat(dir + "/begun"); err == nil {
			var raw []byte
			for _, task := range tasksOf(runner.Process.Pid) { // the thread that started it is its parent
				more, _ := os.ReadFile(task + "/children")
				raw = append(raw, more...)
			}
			_, _ = fmt.Sscan(string(raw), &group)
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	if group == 0 {
		t.Fatal("nothing began")
	}
	if err := runner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = runner.Wait()
	for range 6000 {
		if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
			return
		}
		<-time.After(10 * time.Millisecond) // what was killed is there a moment longer
	}
	t.Error("what bwrap began is left")
	_ = syscall.Kill(-group, syscall.SIGKILL)
}

func tasksOf(pid int) []string {
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // the pattern is good
	return all
}
