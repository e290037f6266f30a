//go:build !race

package hub

// underRace: the race detector makes a world cost four times as much.
const underRace = false
