"""Messages of an MQTT broker (3.1.1), acknowledged to it when their events are durable."""
