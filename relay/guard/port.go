package guard

// publicPort reports whether a request to a public address may go to the port: 80, 443, or one from 1024 on
// where no other protocol is at home. Other services would read a request line as their own protocol's, and
// somebody could have us speak to them from our address. Inside Options.Allow every port is open.
func publicPort(port uint16) bool {
	switch port { // from IANA's registry, and the blocked ports of the Fetch standard
	case 1433, 1434, 1521, 3306, 5432, 5984, 6379, 6380, 8086, 9042, 9200, 9300, 11211, 27017, 27018, 27019: // databases and caches
	case 1883, 4369, 5671, 5672, 8883, 9092, 15672: // queues
	case 2181, 2375, 2376, 2377, 2379, 2380, 6443, 8300, 8500, 10250, 10255: // containers and clusters
	case 2049, 3260, 3690, 4045, 10080: // files and backups
	case 1080, 1723, 3128: // proxies and tunnels
	case 3389, 5900, 5901, 5902, 5903, 5985, 5986, 6000: // desktops and remote management
	case 1719, 1720, 5060, 5061: // telephony
	case 1352, 3659, 4190, 5222, 5269, 6665, 6666, 6667, 6668, 6669, 6679, 6697: // mail and chats
	case 6566, 8125, 9100: // scanners, statistics, printers
	default:
		return port >= 1024 || port == 80 || port == 443
	}
	return false
}
