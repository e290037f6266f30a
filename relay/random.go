package relay

import (
	"crypto/rand"
	"strings"
)

// text is the alphabet of RandomText: 32 symbols.
const text = "abcdefghijklmnopqrstuvwxyz234567"

// TokenLen is the length of a RandomText with more than 256 random bits.
const TokenLen = 52

// RandomText returns n (at least 1) random small letters and digits, 5 bits each. The first is a letter: programs
// take an argument that begins with '-' for a flag, and some take digits for a number.
func RandomText(n int) string { return RandomOf(text, n) }

// RandomOf is RandomText with an alphabet of 32 symbols, some of them ASCII letters.
func RandomOf(alphabet string, n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it ends the process instead
	for {
		if first := symbol(alphabet, b[0]); 'a' <= first|' ' && first|' ' <= 'z' {
			break
		}
		_, _ = rand.Read(b[:1])
	}
	var out strings.Builder
	for _, x := range b {
		out.WriteByte(symbol(alphabet, x))
	}
	return out.String()
}

// symbol returns the symbol that x selects, without bias: 256 is a multiple of 32.
func symbol(alphabet string, x byte) byte { return alphabet[int(x)%len(alphabet)] }
