"""The Python SDK in one case of `servicebus-bench client`: `servicebus.py CONNECTION_STRING CASE QUEUE COUNT`.

Prints what it measured as one line of JSON. The SDK's calls wait for their answers, so it does one at a time; it receives
ahead as the others do.
"""

import json
import sys
import time

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage

BODY = b"x" * 1024
AHEAD = 1000
PER_BATCH = 100
PER_SESSION = 100
WAIT = 20


def send(client, queue, count):
    with client.get_queue_sender(queue) as sender:
        meter = Meter()
        for _ in range(count):
            sender.send_messages(ServiceBusMessage(BODY))
        meter.print(count)


def send_batch(client, queue, count):
    with client.get_queue_sender(queue) as sender:
        meter = Meter()
        for _ in range(count // PER_BATCH):
            batch = sender.create_message_batch()
            for _ in range(PER_BATCH):
                batch.add_message(ServiceBusMessage(BODY))
            sender.send_messages(batch)
        meter.print(count)


def peek_lock_complete(client, queue, count):
    with client.get_queue_receiver(queue, prefetch_count=AHEAD) as receiver:
        meter = Meter()
        receive(receiver, count, receiver.complete_message)
        meter.print(count)


def receive_and_delete(client, queue, count):
    with client.get_queue_receiver(queue, prefetch_count=AHEAD, receive_mode="receiveanddelete") as receiver:
        meter = Meter()
        receive(receiver, count, lambda message: None)
        meter.print(count)


def session(client, queue, count):
    meter = Meter()
    for _ in range(count // PER_SESSION):
        with client.get_queue_receiver(
            queue, session_id=NEXT_AVAILABLE_SESSION, prefetch_count=PER_SESSION
        ) as receiver:
            receive(receiver, PER_SESSION, receiver.complete_message)
    meter.print(count)


def receive(receiver, count, settle):
    received = 0
    while received < count:
        messages = receiver.receive_messages(min(AHEAD, count - received), max_wait_time=WAIT)
        if not messages:
            sys.exit(f"no more messages after {received}")
        for message in messages:
            if sum(len(part) for part in message.body) != len(BODY):
                sys.exit("a body has the wrong size")
            settle(message)
        received += len(messages)


class Meter:
    """Wall and CPU time of this process."""

    def __init__(self):
        self.wall = time.perf_counter_ns()
        self.cpu = time.process_time_ns()

    def print(self, count):
        cpu = time.process_time_ns() - self.cpu
        elapsed = time.perf_counter_ns() - self.wall
        with open("/proc/self/status", encoding="ascii") as status:
            peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
        print(json.dumps({"count": count, "elapsed_ns": elapsed, "cpu_ns": cpu, "peak_rss": peak}), flush=True)


if __name__ == "__main__":
    connection_string, case, queue, count = sys.argv[1:]
    cases = {
        function.__name__: function
        for function in (send, send_batch, peek_lock_complete, receive_and_delete, session)
    }
    with ServiceBusClient.from_connection_string(connection_string) as client:
        cases[case](client, queue, int(count))
