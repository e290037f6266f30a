package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// photoOf is an update with one item of an album of Ann's.
func photoOf(chat obj, id int64, album, caption string) obj {
	u := said(chat, id, "")
	m := u["message"].(obj)
	delete(m, "text")
	m["photo"] = []obj{{"file_id": fmt.Sprint("photo", id), "file_unique_id": fmt.Sprint("u", id), "width": 90, "height": 90, "file_size": 1000}}
	if album != "" {
		m["media_group_id"] = album
	}
	if caption != "" {
		m["caption"] = caption
	}
	return u
}

// pasted is a text of so many units.
func pasted(letter string, units int) string { return strings.Repeat(letter, units) }

// seen are ids, types and texts of what was accepted; long texts are shortened.
func seen(in *memInbox) (out []string) {
	for _, ev := range in.events() {
		text := ev.Text
		if len(text) > 4000 {
			text = ""
			for l := range strings.SplitSeq(ev.Text, "\n") {
				text += fmt.Sprint(l[:1], len(l), " ")
			}
		}
		out = append(out, fmt.Sprintf("%s %s %s", ev.ID, ev.Type, strings.TrimSpace(text)))
	}
	return out
}

func TestAlbumsAndPastesAreOneEvent(t *testing.T) {
	const gap = 400 * time.Millisecond
	for name, tc := range map[string]struct {
		updates []obj
		want    []string
		asked   int           // how often for updates, with nothing in between
		takes   time.Duration // until it is handed in
	}{
		"an album in one answer": {
			[]obj{photoOf(annChat(), 1, "a", ""), photoOf(annChat(), 2, "a", "Beans"), photoOf(annChat(), 3, "a", "Peas")},
			[]string{"4001:1 photo Beans\nPeas"}, 3, 500 * time.Millisecond,
		},
		"an album in pieces": {
			[]obj{photoOf(annChat(), 1, "a", "Beans"), nil, photoOf(annChat(), 2, "a", ""), nil, photoOf(annChat(), 3, "a", "")},
			[]string{"4001:1 photo Beans"}, 5, 1500 * time.Millisecond,
		},
		"an item that comes too late": {
			[]obj{photoOf(annChat(), 1, "a", "Beans"), nil, nil, nil, photoOf(annChat(), 2, "a", "")},
			[]string{"4001:1 photo Beans", "4001:2 photo "}, 5, 500 * time.Millisecond,
		},
		"two albums": {
			[]obj{photoOf(annChat(), 1, "a", "Beans"), photoOf(annChat(), 2, "b", "Peas"), photoOf(groupChat(), 3, "a", "Leek"), photoOf(annChat(), 4, "a", "")},
			[]string{"4001:1 photo Beans", "4001:2 photo Peas", "-1009001:3 photo Leek"}, 3, 500 * time.Millisecond,
		},
		"others go on around it": {
			[]obj{photoOf(annChat(), 1, "a", "Beans"), said(groupChat(), 2, "hi"), nil, photoOf(annChat(), 3, "a", "")},
			[]string{"-1009001:2 text hi", "4001:1 photo Beans"}, 4, time.Second,
		},
		"one picture":             {[]obj{photoOf(annChat(), 1, "", "Beans")}, []string{"4001:1 photo Beans"}, 2, 0},
		"a text":                  {[]obj{said(annChat(), 1, "one"), said(annChat(), 2, "two")}, []string{"4001:1 text one", "4001:2 text two"}, 2, 0},
		"a text of 3,999 units":   {[]obj{said(annChat(), 1, pasted("a", 3999)), said(annChat(), 2, "two")}, []string{"4001:1 text " + pasted("a", 3999), "4001:2 text two"}, 2, 0},
		"half as many characters": {[]obj{said(annChat(), 1, pasted("😀", 2000)), said(annChat(), 2, "two")}, []string{"4001:1 text \xf08000 t3"}, 3, 500 * time.Millisecond},
		"a paste": {
			[]obj{said(annChat(), 1, pasted("a", 4096)), said(annChat(), 2, pasted("b", 4000)), said(annChat(), 3, "end"), said(annChat(), 4, "next")},
			[]string{"4001:1 text a4096 b4000 e3", "4001:4 text next"}, 3, 500 * time.Millisecond,
		},
		"a paste in pieces": {
			[]obj{said(annChat(), 1, pasted("a", 4096)), nil, said(annChat(), 2, "end")},
			[]string{"4001:1 text a4096 e3"}, 4, time.Second,
		},
		"a command with a paste": {
			[]obj{said(annChat(), 1, "/do "+pasted("a", 4092)), said(annChat(), 2, "/end")},
			[]string{"4001:1 command /4096 /4"}, 3, 500 * time.Millisecond,
		},
		"a long text alone":     {[]obj{said(annChat(), 1, pasted("a", 4096))}, []string{"4001:1 text a4096"}, 3, 500 * time.Millisecond},
		"another chat":          {[]obj{said(annChat(), 1, pasted("a", 4096)), said(groupChat(), 2, "two")}, []string{"-1009001:2 text two", "4001:1 text a4096"}, 3, 500 * time.Millisecond},
		"a picture in between":  {[]obj{said(annChat(), 1, pasted("a", 4096)), photoOf(annChat(), 2, "", "x"), said(annChat(), 3, "b")}, []string{"4001:1 text a4096", "4001:2 photo x", "4001:3 text b"}, 3, 500 * time.Millisecond},
		"much later":            {[]obj{said(annChat(), 1, pasted("a", 4096)), said(annChat(), 50, "two")}, []string{"4001:1 text a4096", "4001:50 text two"}, 3, 500 * time.Millisecond},
		"an answer to somebody": {[]obj{said(annChat(), 1, pasted("a", 4096)), replying(said(annChat(), 2, "two"), 9)}, []string{"4001:1 text a4096", "4001:2 text two"}, 3, 500 * time.Millisecond},
		"an answer in parts":    {[]obj{replying(said(annChat(), 1, pasted("a", 4096)), 9), replying(said(annChat(), 2, "two"), 9)}, []string{"4001:1 text a4096 t3"}, 3, 500 * time.Millisecond},
		"another author":        {[]obj{said(groupChat(), 1, pasted("a", 4096)), by(4002, said(groupChat(), 2, "two")), said(groupChat(), 3, "end")}, []string{"-1009001:1 text a4096 e3", "-1009001:2 text two"}, 3, 500 * time.Millisecond},
		"another topic":         {[]obj{in(77, said(groupChat(), 1, pasted("a", 4096))), in(78, said(groupChat(), 2, "two"))}, []string{"-1009001:1 text a4096", "-1009001:2 text two"}, 3, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
				inb := newInbox()
				running(t, p, inb)
				synctest.Wait()
				before, start := len(f.offsets()), time.Now()
				_ = start
				f.mu.Lock() // what is not separated by a pause is in one answer
				for i, u := range tc.updates {
					if u == nil {
						f.mu.Unlock()
						time.Sleep(gap)
						f.mu.Lock()
						continue
					}
					u["update_id"] = f.nextID
					f.nextID++
					f.updates = append(f.updates, u)
					if i+1 == len(tc.updates) || tc.updates[i+1] == nil {
						f.changedLocked()
					}
				}
				f.mu.Unlock()
				time.Sleep(4 * time.Second)
				synctest.Wait()
				if diff := cmp.Diff(tc.want, seen(inb)); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				offsets := f.offsets()[before-1:]
				if len(offsets) != tc.asked {
					t.Errorf("asked %d times, want %d: %v", len(offsets), tc.asked, offsets)
				}
				if f.pending() > 0 {
					t.Errorf("%d not confirmed", f.pending())
				}
			})
		})
	}
}

func replying(u obj, to int64) obj {
	u["message"].(obj)["reply_to_message"] = obj{"message_id": to, "text": "x", "chat": u["message"].(obj)["chat"], "from": obj{"id": 4002, "first_name": "Bob"}}
	return u
}

func by(user int64, u obj) obj {
	u["message"].(obj)["from"] = obj{"id": user, "is_bot": false, "first_name": "Bob"}
	return u
}

func in(topic int64, u obj) obj {
	u["message"].(obj)["message_thread_id"], u["message"].(obj)["is_topic_message"] = topic, true
	return u
}

// TestNothingOfAnAlbumIsConfirmedEarly: the offset stands still while it comes, for three seconds at most.
func TestNothingOfAnAlbumIsConfirmedEarly(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
		inb := newInbox()
		running(t, p, inb)
		f.push(said(annChat(), 1, "one"))
		synctest.Wait()
		n, start := len(f.offsets()), time.Now()
		for i := range 20 { // one that does not end
			f.push(photoOf(annChat(), int64(10+i), "a", fmt.Sprint(i)))
			time.Sleep(300 * time.Millisecond)
			synctest.Wait()
			if len(inb.events()) == 2 && time.Since(start) < 2*time.Second {
				t.Fatalf("handed in after %v", time.Since(start))
			}
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		same := 0
		for _, o := range f.offsets()[n-1:] {
			if o == f.offsets()[n-1] {
				same++
			}
		}
		texts := inb.texts()
		if same < 5 || same > 7 || len(texts) < 3 || len(strings.Split(texts[1], "\n")) < 8 || f.pending() > 0 {
			t.Errorf("asked %d times with one offset, events %q", same, texts)
		}
		if got := strings.Fields(strings.Join(texts[1:], " ")); len(got) != 20 {
			t.Errorf("captions %q", got)
		}
	})
}

// TestAnAlbumAndTrouble: what fails while the rest is asked for loses nothing, and brings nothing twice.
func TestAnAlbumAndTrouble(t *testing.T) {
	for name, faults := range map[string][]fault{
		"no network": {{}, {lose: true}, {lose: true}},
		"silence":    {{}, {hang: true}},
		"conflict":   {{}, {code: 409, description: "Conflict: terminated by other getUpdates request"}},
		"too many":   {{}, {code: 429, description: "Too Many Requests", retryAfter: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
				f.push(photoOf(annChat(), 1, "a", "one"))
				f.push(photoOf(annChat(), 2, "a", "two"))
				f.fail("getUpdates", faults...)
				inb := newInbox()
				stop, _ := running(t, p, inb)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if got := inb.texts(); !slices.Equal(got, []string{"one\ntwo"}) {
					t.Errorf("events %q", got)
				}
				time.Sleep(time.Minute)
				f.push(said(annChat(), 3, "three"))
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := inb.texts(); !slices.Equal(got, []string{"one\ntwo", "three"}) || f.pending() > 0 {
					t.Errorf("events %q", got)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestAnAlbumAcrossFullAnswers: what may go on in the next answer is left for that.
func TestAnAlbumAcrossFullAnswers(t *testing.T) {
	for from := 85; from <= 100; from++ {
		bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
			for i := range 120 {
				u := said(groupChat(), int64(i+1), "x")
				if i >= from && i < from+10 {
					u = photoOf(annChat(), int64(i+1), "a", "")
				}
				f.push(u)
			}
			inb := newInbox()
			running(t, p, inb)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			albums := 0
			for _, ev := range inb.events() {
				if ev.Type == relay.TypePhoto {
					albums++
				}
			}
			if len(inb.events()) != 111 || albums != 1 || f.pending() > 0 {
				t.Errorf("an album from %d: %d events, %d albums, %d wait", from, len(inb.events()), albums, f.pending())
			}
		})
	}
}

// TestNobodyWaitsForAnothersAlbum: what comes in other chats meanwhile is handed in at once, and a press is answered. A
// crash before the album is there brings nothing twice.
func TestNobodyWaitsForAnothersAlbum(t *testing.T) {
	for name, crash := range map[string]bool{"": false, "and a crash": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
				mem := newInbox()
				inb := &deskInbox{mem, map[relay.EventID]string{"q:7": "This question is closed"}, 0}
				keep := &seenInbox{memInbox: mem}
				stop, _ := running(t, p, both{inb, keep})
				synctest.Wait()
				f.push(photoOf(annChat(), 1, "a", "one"))
				time.Sleep(100 * time.Millisecond)
				for n := range 8 {
					if n == 2 {
						f.push(pressed("7", "hp1:p1:y", asked(groupChat(), 0)))
					}
					f.push(said(groupChat(), int64(20+n), fmt.Sprint("g", n)))
					f.push(photoOf(annChat(), int64(2+n), "a", ""))
					time.Sleep(250 * time.Millisecond)
				}
				synctest.Wait()
				early := mem.texts()
				want := []string{"g0", "g1", "/y", "g2", "g3", "g4", "g5", "g6", "g7"}
				if len(early) < 7 || !slices.Equal(early, want[:len(early)]) || f.pending() < 16 {
					t.Errorf("meanwhile %q, %d not confirmed", early, f.pending())
				}
				if got := f.callsTo("answerCallbackQuery"); len(got) != 1 || got[0].Get("text") != "This question is closed" {
					t.Errorf("answers %v", got)
				}
				if crash {
					_ = stop()
					running(t, openAt(t, platforms.Options{Transport: f}), both{inb, keep})
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				got := mem.texts()
				slices.Sort(got)
				if !slices.Equal(got, []string{"/y", "g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7", "one"}) || f.pending() > 0 {
					t.Errorf("in the end %q, %d not confirmed", got, f.pending())
				}
			})
		})
	}
}

// both refuses presses as the first does, and knows what it has as the second.
type both struct {
	*deskInbox
	seen *seenInbox
}

func (in both) Accept(ctx context.Context, b platforms.Batch) error {
	for _, ev := range b.Events {
		if words, ok := in.refuse[ev.ID]; ok {
			b.Refused(ev.ID, words)
		}
	}
	return in.seen.Accept(ctx, b)
}

// TestStopWhileAnAlbumComes: Run ends at once, and the album comes whole to the next one.
func TestStopWhileAnAlbumComes(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
		inb := newInbox()
		stop, _ := running(t, p, inb)
		f.push(photoOf(annChat(), 1, "a", "one"))
		time.Sleep(200 * time.Millisecond)
		start := time.Now()
		if err := stop(); err != nil || time.Since(start) > 0 || len(inb.events()) > 0 {
			t.Errorf("Run = %v after %v, events %q", err, time.Since(start), inb.texts())
		}
		f.push(photoOf(annChat(), 2, "a", "two"))
		running(t, openAt(t, platforms.Options{Transport: f}), inb)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := inb.texts(); !slices.Equal(got, []string{"one\ntwo"}) {
			t.Errorf("events %q", got)
		}
	})
}

func TestJoin(t *testing.T) {
	refs := func(names ...string) (out []relay.Attachment) {
		for _, n := range names {
			out = append(out, relay.Attachment{Ref: n})
		}
		return out
	}
	type item struct {
		ev  relay.Event
		own int
	}
	for name, tc := range map[string]struct {
		items []item
		want  relay.Event
	}{
		"the reply's come last and once": {
			[]item{{relay.Event{Type: relay.TypePhoto, Attachments: refs("a", "r")}, 1}, {relay.Event{Type: relay.TypePhoto, Attachments: refs("b", "r")}, 1}, {relay.Event{Type: relay.TypePhoto, Attachments: refs("c", "r", "s")}, 1}},
			relay.Event{Type: relay.TypePhoto, Attachments: refs("a", "b", "c", "r", "s")},
		},
		"ten at most, the own ones first": {
			[]item{{relay.Event{Type: relay.TypePhoto, Attachments: refs("1", "r", "s", "t")}, 1}, {relay.Event{Type: relay.TypePhoto, Attachments: refs("2", "3", "4", "5", "6", "7", "8", "9")}, 8}, {relay.Event{Type: relay.TypePhoto, Attachments: refs("10", "11")}, 2}},
			relay.Event{Type: relay.TypePhoto, Attachments: refs("1", "2", "3", "4", "5", "6", "7", "8", "9", "10")},
		},
		"of two kinds": {
			[]item{{relay.Event{Type: relay.TypePhoto, Text: "a"}, 0}, {relay.Event{Type: relay.TypeVideo}, 0}, {relay.Event{Type: relay.TypePhoto, Text: "c"}, 0}},
			relay.Event{Type: relay.TypeDocument, Text: "a\nc"},
		},
		"addressed by any": {
			[]item{{relay.Event{Type: relay.TypePhoto}, 0}, {relay.Event{Type: relay.TypePhoto, Text: "b", Traits: relay.Traits{Addressed: true, OtherCommand: true}}, 0}},
			relay.Event{Type: relay.TypePhoto, Text: "b", Traits: relay.Traits{Addressed: true, OtherCommand: true}},
		},
		"a text that goes on with what looks like a command": {
			[]item{{relay.Event{Type: relay.TypeText, Text: "a"}, 0}, {relay.Event{Type: relay.TypeCommand, Text: "/b@other", Traits: relay.Traits{OtherCommand: true}}, 0}},
			relay.Event{Type: relay.TypeText, Text: "a\n/b@other"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, own := tc.items[0].ev, tc.items[0].own
			for _, i := range tc.items[1:] {
				own = join(&got, own, i.ev, i.own)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || own > len(got.Attachments) {
				t.Errorf("own %d (-want +got):\n%s", own, diff)
			}
		})
	}
}

func BenchmarkAlbumOfTen(b *testing.B) {
	r := newReader()
	var us []*received
	for i := range 10 {
		u := photoOf(annChat(), int64(i+1), "a", "")
		u["update_id"] = i + 1
		raw, _ := json.Marshal(u)
		us = append(us, receivedIn(raw))
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := r.batch(us...); len(got.Events) != 1 {
			b.Fatal("not one event")
		}
	}
}

// TestAPasteEndsWhereAFrameIsFull: of 90 messages of Chinese text the first are one event that a frame holds, the others the
// next, and nothing is left out.
func TestAPasteEndsWhereAFrameIsFull(t *testing.T) {
	for name, tc := range map[string]struct {
		letter string
		events int
	}{
		"in Chinese": {"漢", 2}, "in English": {"a", 1}, "of signs that JSON spells out": {"\u2028", 3}, "with markup": {"<", 1},
	} {
		t.Run(name, func(t *testing.T) {
			const parts = 90
			bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
				inb := newInbox()
				running(t, p, inb)
				synctest.Wait()
				f.mu.Lock()
				for n := range parts {
					u := said(annChat(), int64(n+1), pasted(tc.letter, 4096))
					u["update_id"] = f.nextID
					f.nextID++
					f.updates = append(f.updates, u)
				}
				f.changedLocked()
				f.mu.Unlock()
				time.Sleep(4 * time.Second)
				synctest.Wait()
				all := inb.events()
				if len(all) != tc.events {
					t.Errorf("%d events, want %d", len(all), tc.events)
				}
				var lines int
				for _, ev := range all {
					if n := sizeOf(ev.Text); n > relay.MaxText {
						t.Errorf("an event of %d bytes", n)
					}
					lines += strings.Count(ev.Text, "\n") + 1
				}
				if lines != parts {
					t.Errorf("%d messages arrived, want %d", lines, parts)
				}
			})
		})
	}
}
