"""Messages of an MQTT broker (3.1.1), acknowledged when their events are durable."""
