package wake

import "time"

// target is an instance for which entries wait, or that was poked less than a cooldown ago. A waker's mu guards it.
type target struct {
	look  time.Time     // when to look at it next
	next  time.Time     // when it may be poked next; zero: at once
	poked time.Time     // when the last poke began; zero: never
	pause time.Duration // between the next poke and the one after
	busy  bool          // a request is under way
	grew  bool          // entries were appended since it was last looked at
	asked bool          // somebody wants it poked though nothing waits
	share share         // of the last request, or of the one that waits for its turn; zero: not known yet
}

// soon shortens the pause since the last poke to the cooldown.
func (t *target) soon(cooldown time.Duration) {
	if t.poked.IsZero() {
		t.next = time.Time{}
		return
	}
	if after := t.poked.Add(cooldown); after.Before(t.next) {
		t.next = after
	}
}

// came notes that a session came since the last poke, or is there.
func (t *target) came(cooldown time.Duration) {
	t.pause = cooldown
	t.soon(cooldown)
}

// later postpones the next look to the next poke, but by no more than a cooldown from now, since a session may come and
// go in the meantime.
func (t *target) later(now time.Time, cooldown time.Duration) {
	t.look = now.Add(cooldown)
	if t.next.After(now) && t.next.Before(t.look) {
		t.look = t.next
	}
}
