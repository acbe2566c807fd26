/* Proton C as a measured peer: one side of one run, on the proactor API.
 *
 *   proton --side sender|receiver (--listen | --connect PORT) --settle unsettled|presettled
 *          --body BYTES --count MESSAGES --window MESSAGES --max-frame BYTES
 *
 * A listening side first prints "port N". Both print one JSON line at the end, with the CPU and wall time between
 * the first message and the last. Each message is encoded from its body and decoded to it, as an application would;
 * the message object and its buffer are reused, which is the cheapest use of the API.
 */
#include <proton/connection.h>
#include <proton/condition.h>
#include <proton/delivery.h>
#include <proton/link.h>
#include <proton/listener.h>
#include <proton/message.h>
#include <proton/netaddr.h>
#include <proton/proactor.h>
#include <proton/sasl.h>
#include <proton/session.h>
#include <proton/transport.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Proton buffers what it is given; without a limit of the application's own, 1,000 large bodies pile up in it. */
#define OUTGOING_LIMIT (1024 * 1024)

typedef struct {
  bool sender, listen, presettled;
  const char *port;
  size_t body, count, window;
  uint32_t max_frame;
} options_t;

typedef struct {
  options_t options;
  pn_proactor_t *proactor;
  pn_message_t *message;
  pn_rwbytes_t buffer;
  size_t filled;
  size_t sent, settled, received;
  bool started, stopped, finished;
  struct timespec wall_start, wall_stop, cpu_start, cpu_stop;
} run_t;

static void die(const char *what) {
  fprintf(stderr, "proton: %s\n", what);
  exit(1);
}

static double nanoseconds(struct timespec from, struct timespec to) {
  return (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
}

static void meter_start(run_t *run) {
  if (run->started) return;
  run->started = true;
  clock_gettime(CLOCK_MONOTONIC, &run->wall_start);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &run->cpu_start);
}

static void meter_stop(run_t *run) {
  if (run->stopped) return;
  run->stopped = true;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &run->cpu_stop);
  clock_gettime(CLOCK_MONOTONIC, &run->wall_stop);
}

static long peak_rss_kib(void) {
  char line[256];
  long kib = 0;
  FILE *status = fopen("/proc/self/status", "r");
  if (!status) return 0;
  while (fgets(line, sizeof line, status))
    if (sscanf(line, "VmHWM: %ld kB", &kib) == 1) break;
  fclose(status);
  return kib;
}

static void report(const run_t *run) {
  if (!run->started || !run->stopped) die("the connection ended before the last message");
  printf("{\"count\":%zu,\"elapsed_ns\":%.0f,\"cpu_ns\":%.0f,\"peak_rss\":%ld}\n", run->options.count,
         nanoseconds(run->wall_start, run->wall_stop), nanoseconds(run->cpu_start, run->cpu_stop),
         peak_rss_kib() * 1024);
}

static void compose(run_t *run) {
  char *bytes = malloc(run->options.body);
  if (!bytes) die("out of memory");
  memset(bytes, 'x', run->options.body);
  run->message = pn_message();
  pn_message_set_inferred(run->message, true); /* a data section, not a value section with a binary */
  pn_data_put_binary(pn_message_body(run->message), pn_bytes(run->options.body, bytes));
  free(bytes);
}

static void send_more(run_t *run, pn_link_t *link) {
  const options_t *options = &run->options;
  pn_session_t *session = pn_link_session(link);
  while (run->sent < options->count && pn_link_credit(link) > 0 && run->sent - run->settled < options->window &&
         pn_session_outgoing_bytes(session) < OUTGOING_LIMIT) {
    meter_start(run);
    pn_delivery_t *delivery = pn_delivery(link, pn_dtag((const char *)&run->sent, sizeof run->sent));
    run->sent++;
    if (pn_message_send(run->message, link, &run->buffer) < 0) die("cannot encode a message");
    if (options->presettled) {
      pn_delivery_settle(delivery);
      run->settled++;
    }
  }
}

static void on_outcome(run_t *run, pn_delivery_t *delivery) {
  if (!pn_delivery_updated(delivery)) return;
  if (pn_delivery_remote_state(delivery) != PN_ACCEPTED) die("a message was not accepted");
  pn_link_t *link = pn_delivery_link(delivery);
  pn_delivery_settle(delivery);
  run->settled++;
  if (run->settled == run->options.count) {
    meter_stop(run);
    pn_link_close(link);
  } else {
    send_more(run, link);
  }
}

static void on_incoming(run_t *run, pn_delivery_t *delivery) {
  const options_t *options = &run->options;
  pn_link_t *link = pn_delivery_link(delivery);
  if (!pn_delivery_readable(delivery)) return;
  size_t pending = pn_delivery_pending(delivery);
  if (run->filled + pending > run->buffer.size) die("a message is larger than announced");
  ssize_t read = pn_link_recv(link, run->buffer.start + run->filled, pending);
  if (read > 0) run->filled += (size_t)read;
  if (pn_delivery_partial(delivery)) return;

  if (pn_message_decode(run->message, run->buffer.start, run->filled)) die("cannot decode a message");
  run->filled = 0;
  pn_data_t *body = pn_message_body(run->message);
  pn_data_rewind(body);
  if (!pn_data_next(body) || pn_data_get_binary(body).size != options->body) die("a body has the wrong size");
  if (!pn_delivery_settled(delivery)) pn_delivery_update(delivery, PN_ACCEPTED);
  pn_delivery_settle(delivery);
  run->received++;
  meter_start(run);
  if (run->received == options->count) {
    meter_stop(run);
  } else if ((size_t)pn_link_credit(link) < options->window / 2 + 1) {
    pn_link_flow(link, (int)options->window - pn_link_credit(link));
  }
}

static void configure(const run_t *run, pn_transport_t *transport) {
  pn_transport_set_max_frame(transport, run->options.max_frame);
  pn_transport_require_auth(transport, false);
  pn_sasl_allowed_mechs(pn_sasl(transport), "ANONYMOUS");
}

static void open_link(run_t *run, pn_connection_t *connection) {
  pn_connection_set_container(connection, "bench");
  pn_connection_open(connection);
  pn_session_t *session = pn_session(connection);
  pn_session_open(session);
  pn_link_t *link = run->options.sender ? pn_sender(session, "bench") : pn_receiver(session, "bench");
  pn_terminus_set_address(pn_link_target(link), "bench");
  pn_terminus_set_address(pn_link_source(link), "bench");
  pn_link_set_snd_settle_mode(link, run->options.presettled ? PN_SND_SETTLED : PN_SND_UNSETTLED);
  pn_link_open(link);
  if (!run->options.sender) pn_link_flow(link, (int)run->options.window);
}

static void on_remote_link(run_t *run, pn_link_t *link) {
  if (!(pn_link_state(link) & PN_LOCAL_UNINIT)) return;
  if (pn_link_is_sender(link) != run->options.sender) die("the link goes the wrong way");
  pn_terminus_copy(pn_link_source(link), pn_link_remote_source(link));
  pn_terminus_copy(pn_link_target(link), pn_link_remote_target(link));
  pn_link_set_snd_settle_mode(link, pn_link_remote_snd_settle_mode(link));
  pn_link_open(link);
  if (!run->options.sender) pn_link_flow(link, (int)run->options.window);
}

static void on_event(run_t *run, pn_event_t *event) {
  switch (pn_event_type(event)) {
    case PN_LISTENER_OPEN: {
      char port[PN_MAX_ADDR];
      pn_netaddr_host_port(pn_listener_addr(pn_event_listener(event)), NULL, 0, port, sizeof port);
      printf("port %s\n", port);
      fflush(stdout);
      break;
    }
    case PN_LISTENER_ACCEPT: {
      pn_transport_t *transport = pn_transport();
      pn_transport_set_server(transport);
      configure(run, transport);
      pn_listener_accept2(pn_event_listener(event), NULL, transport);
      break;
    }
    case PN_CONNECTION_INIT:
      if (!run->options.listen) open_link(run, pn_event_connection(event));
      break;
    case PN_CONNECTION_REMOTE_OPEN: {
      pn_connection_t *connection = pn_event_connection(event);
      if (pn_connection_state(connection) & PN_LOCAL_UNINIT) {
        pn_connection_set_container(connection, "bench");
        pn_connection_open(connection);
      }
      break;
    }
    case PN_SESSION_REMOTE_OPEN:
      if (pn_session_state(pn_event_session(event)) & PN_LOCAL_UNINIT) pn_session_open(pn_event_session(event));
      break;
    case PN_LINK_REMOTE_OPEN:
      on_remote_link(run, pn_event_link(event));
      break;
    case PN_LINK_FLOW: {
      pn_link_t *link = pn_event_link(event);
      if (!run->options.sender || !(pn_link_state(link) & PN_LOCAL_ACTIVE)) break;
      send_more(run, link);
      if (run->options.presettled && run->sent == run->options.count) pn_link_close(link);
      break;
    }
    case PN_DELIVERY:
      if (run->options.sender) {
        on_outcome(run, pn_event_delivery(event));
      } else {
        on_incoming(run, pn_event_delivery(event));
      }
      break;
    case PN_LINK_REMOTE_CLOSE:
    case PN_LINK_REMOTE_DETACH:
      if (run->options.sender) {
        if (run->sent == run->options.count) meter_stop(run);
        pn_connection_close(pn_session_connection(pn_link_session(pn_event_link(event))));
      }
      pn_link_close(pn_event_link(event));
      break;
    case PN_CONNECTION_REMOTE_CLOSE:
      pn_connection_close(pn_event_connection(event));
      break;
    case PN_TRANSPORT_CLOSED: {
      pn_condition_t *condition = pn_transport_condition(pn_event_transport(event));
      if (pn_condition_is_set(condition) && !run->stopped) die(pn_condition_get_description(condition));
      run->finished = true;
      break;
    }
    default:
      break;
  }
}

static options_t parse(int argc, char **argv) {
  options_t options = {.max_frame = 65536, .window = 1000};
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--listen")) {
      options.listen = true;
      continue;
    }
    if (i + 1 == argc) die("an option lacks its value");
    const char *name = argv[i], *value = argv[++i];
    if (!strcmp(name, "--side")) options.sender = !strcmp(value, "sender");
    else if (!strcmp(name, "--connect")) options.port = value;
    else if (!strcmp(name, "--settle")) options.presettled = !strcmp(value, "presettled");
    else if (!strcmp(name, "--body")) options.body = strtoul(value, NULL, 10);
    else if (!strcmp(name, "--count")) options.count = strtoul(value, NULL, 10);
    else if (!strcmp(name, "--window")) options.window = strtoul(value, NULL, 10);
    else if (!strcmp(name, "--max-frame")) options.max_frame = (uint32_t)strtoul(value, NULL, 10);
    else die("an unknown option");
  }
  if (options.listen == (options.port != NULL) || !options.count) die("wrong options");
  return options;
}

int main(int argc, char **argv) {
  run_t run = {.options = parse(argc, argv), .proactor = pn_proactor()};
  if (run.options.sender) {
    compose(&run);
  } else {
    run.message = pn_message();
    run.buffer.size = run.options.body + 1024;
    run.buffer.start = malloc(run.buffer.size);
    if (!run.buffer.start) die("out of memory");
  }
  if (run.options.listen) {
    pn_proactor_listen(run.proactor, pn_listener(), "127.0.0.1:0", 1);
  } else {
    char address[PN_MAX_ADDR];
    snprintf(address, sizeof address, "127.0.0.1:%s", run.options.port);
    pn_transport_t *transport = pn_transport();
    configure(&run, transport);
    pn_proactor_connect2(run.proactor, NULL, transport, address);
  }
  while (!run.finished) {
    pn_event_batch_t *batch = pn_proactor_wait(run.proactor);
    for (pn_event_t *event; (event = pn_event_batch_next(batch));) on_event(&run, event);
    pn_proactor_done(run.proactor, batch);
  }
  report(&run);
  return 0;
}
