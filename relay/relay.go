// Package relay is the vocabulary of the connector: ids, events, actions, results,
// descriptors, errors and secrets. Every other package speaks in these types; this one
// imports nothing but the standard library, performs no I/O and starts nothing.
//
// It is not the wire format (relay/wire spells that). The json tags in this package are the
// form in which events are stored in the delivery buffers: a compatibility promise to our own
// database, and to nobody else.
package relay
