package audit

// ListIn is Log.List within a transaction.
var ListIn = list
