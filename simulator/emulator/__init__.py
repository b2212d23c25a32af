"""The simulator's links on real IP packets: between network namespaces, through TUN devices."""
