package relay

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What a gateway makes of the error of a final answer, read from the sources of three ages: June (dc927c8), August
// (b15f898) and the newest of November 2026 (03b160e). Of the result it reads success, message_id and error only.
//
//   - gateway/platforms/base.py, _send_with_retry: on a connection's words it sends twice more, after 2 and 4 s, and then
//     says that the delivery failed (the newest not, if the last words were a limit's). On a timeout's it stops. On all
//     others it sends once more, as plain text, which fails alike.
//   - gateway/delivery_ledger.py, since July: an answer that failed is kept. August sends it again when it restarts, with
//     a mark that it may be a repetition; the newest in any case, and while it runs, too: after 30 and 120 s, or when a
//     penalty is over whose length it can read, which is three times at most; never to a chat that is dead.
//   - The length of a penalty is all that stands behind flood_control: at the beginning of the words, read as one number
//     (60 if it is none), or the number in the library's sentence wherever it stands.
//   - Words of the chat's death are searched only behind those that say that the text is too long or badly formed.
type age struct {
	again   []string // a part of the words: sent again at once
	unclear []string // not sent again at once
	kept    bool     // for the next start
	running bool     // and sent again before that
}

var (
	connection = []string{
		"connecterror", "connectionerror", "connectionreset", "connectionrefused", "connecttimeout", "network",
		"broken pipe", "remotedisconnected", "eoferror",
	}
	limits   = []string{"flood", "too many requests", "retry after", "rate limit"}
	timeouts = []string{"timed out", "readtimeout", "writetimeout"}
	tooLong  = []string{"message_too_long", "too long"}
	badForm  = []string{"can't parse entities", "cant parse entities", "can't find end", "unsupported start tag"}
	dead     = []string{
		"forbidden", "bot was blocked", "blocked by the user", "user is deactivated", "not enough rights",
		"have no rights", "not a member", "chat not found",
	}
	inChat = []string{ // the chat itself is there
		"message to edit not found", "message to reply not found", "thread not found", "topic_deleted", "message_id_invalid",
	}
	penalty = regexp.MustCompile(`flood control exceeded.*?retry in\s+(\d+(?:\.\d+)?)`)

	june     = age{again: connection, unclear: timeouts}
	august   = age{again: connection, unclear: timeouts, kept: true}
	november = age{again: append(slices.Clone(connection), limits...), unclear: timeouts, kept: true, running: true}
)

// fate is what becomes of a final answer that failed with these words: retried (sent again at once), plain (as plain
// text), dropped; kept for the next start, kept 30s (and for 30 and 120 s from now), waited (until that is over), dead.
func (a age) fate(words string) string {
	words = strings.ToLower(words)
	has := func(parts []string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(words, p) })
	}
	out := "plain"
	switch {
	case has(a.again):
		out = "retried"
	case has(a.unclear):
		out = "dropped"
	}
	flood, prefixed := strings.CutPrefix(words, "flood_control:")
	switch m := penalty.FindStringSubmatch(words); {
	case !a.kept:
	case !a.running:
		out += ", kept"
	case prefixed:
		seconds, err := strconv.ParseFloat(strings.TrimSpace(flood), 64)
		if err != nil || seconds <= 0 {
			seconds = 60
		}
		out += fmt.Sprintf(", waited %gs", seconds)
	case m != nil:
		out += ", waited " + m[1] + "s"
	case !has(tooLong) && !has(badForm) && !has(inChat) && has(dead):
		out += ", dead"
	default:
		out += ", kept 30s"
	}
	return out
}

// fates are those of June, August and November.
type fates [3]string

func fatesOf(words string) fates {
	return fates{june.fate(words), august.fate(words), november.fate(words)}
}

var (
	later   = fates{"retried", "retried, kept", "retried, kept 30s"}
	waited  = fates{"retried", "retried, kept", "retried, waited 185s"}
	maybe   = fates{"dropped", "dropped, kept", "dropped, kept 30s"}
	refused = fates{"plain", "plain, kept", "plain, kept 30s"}
	died    = fates{"plain", "plain, kept", "plain, dead"}
)

// TestWords holds every kind of error against the rules of the three ages.
func TestWords(t *testing.T) {
	const wait = 184500 * time.Millisecond
	for name, tc := range map[string]struct {
		err  *ActionError
		want fates
	}{
		"out of reach":              {Later("Telegram cannot be reached", nil), later},
		"busy":                      {Busy(), later},
		"a penalty":                 {Penalty(wait, nil), waited},
		"a penalty of unknown time": {Penalty(0, nil), later},
		"perhaps":                   {Unclear("Telegram had an internal error, the outcome is unknown", nil), maybe},
		"a deadline":                {Explain(fmt.Errorf("x: %w", context.DeadlineExceeded)), maybe},
		"a part of it":              {Partly([]MessageID{"1"}, 2, nil), maybe},
		"an op nobody knows":        {Unsupported("poll"), refused},
		"a malformed one":           {Invalid(OpSend, "chat_id is missing"), refused},
		"not allowed":               {Declined("telegram"), refused},

		// Of Telegram and its library.
		"an empty text":      {Refused("Bad Request: message text is empty", nil), refused},
		"a long text":        {Refused("Bad Request: message is too long", nil), refused},
		"odd words":          {Refused("Bad Request: network request timed out", nil), refused},
		"a lost topic":       {Refused("Bad Request: message thread not found", nil), refused},
		"a message not ours": {Refused("Bad Request: message to edit not found", nil), refused},
		"no such chat":       {Refused("Bad Request: chat not found", nil), died},
		"blocked":            {Refused("Forbidden: bot was blocked by the user", nil), died},
		"kicked":             {Refused("Forbidden: bot was kicked from the supergroup chat", nil), died},
		"may not write":      {Refused("Bad Request: not enough rights to send text messages to the chat", nil), died},
		"a closed chat":      {Refused("Bad Request: CHAT_WRITE_FORBIDDEN", nil), died},
		"nobody there":       {Gone("Bad Request: PEER_ID_INVALID", nil), died},
		"a dead group":       {Gone("Bad Request: group chat was deactivated", nil), died},
		// Of Discord.
		"no access":        {Refused("403 Forbidden (error code: 50001): Missing Access", nil), died},
		"no such channel":  {Gone("404 Not Found (error code: 10003): Unknown Channel", nil), died},
		"no such message":  {Refused("404 Not Found (error code: 10008): Unknown Message", nil), refused},
		"an empty message": {Refused("400 Bad Request (error code: 50006): Cannot send an empty message", nil), refused},
		// Of the others.
		"unsubscribed":                        {Gone("the recipient has unsubscribed", nil), died},
		"bad credential":                      {Refused("bad_credentials", nil), refused},
		"no words":                            {Gone("", nil), died},
		"words that would have it sent again": {Gone("the network is gone", nil), died},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fatesOf(tc.err.Public); got != tc.want {
				t.Errorf("%q is %q, want %q", tc.err.Public, got, tc.want)
			}
			if again := tc.want == later || tc.want == waited; tc.err.Retried() != again || again && tc.err.Outcome != NotSent {
				t.Errorf("%+v: retried is %t", tc.err, tc.err.Retried())
			}
		})
	}
	if p := Penalty(wait, nil); p.RetryAfter != wait {
		t.Errorf("a penalty of %v", p.RetryAfter)
	}
	for words, want := range map[string]string{ // how the newest would read a penalty otherwise
		"flood_control:185": "retried, waited 185s", "flood_control:185: Telegram asks us to wait": "retried, waited 60s",
		"rate limited, retry after 185": "retried, kept 30s",
	} {
		if got := november.fate(words); got != want {
			t.Errorf("%q is %q, want %q", words, got, want)
		}
	}
}

// TestEveryError finds the errors of actions in the sources: they are made in one place, and what is written into them
// steers no gateway to anything else.
func TestEveryError(t *testing.T) {
	want := map[string]fates{"Later": later, "Unclear": maybe, "Refused": refused, "Gone": died}
	found := 0
	for _, dir := range []string{".", "../platforms", "../cli"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					if nameOf(n.Type) == "ActionError" && path != "errors.go" && path != filepath.FromSlash("wire/result.go") {
						t.Errorf("%s makes an error of an action by itself: the words are made in relay/errors.go", path)
					}
				case *ast.CallExpr:
					f, ok := want[nameOf(n.Fun)]
					if ok = ok && len(n.Args) == 2; !ok {
						return true
					}
					words := constant(n.Args[0])
					if words == "" {
						return true
					}
					found++
					switch nameOf(n.Fun) {
					case "Later":
						words = Later(words, nil).Public
					case "Unclear":
						words = Unclear(words, nil).Public
					case "Gone":
						words = Gone(words, nil).Public
					}
					if got := fatesOf(words); got != f && !(f == refused && got == died) {
						t.Errorf("%s: %q is %q, want %q", path, words, got, f)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 20 {
		t.Errorf("found %d errors only: the test looks in the wrong place", found)
	}
}

// nameOf is the last part of a name; empty: it is none.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// constant is what is known of a text by its source.
func constant(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return s
	case *ast.BinaryExpr:
		x, y := constant(e.X), constant(e.Y)
		if x == "" && y == "" {
			return ""
		}
		return cmp.Or(x, "x") + cmp.Or(y, "x")
	case *ast.CallExpr:
		if nameOf(e.Fun) == "Sprintf" {
			return constant(e.Args[0])
		}
	}
	return ""
}
