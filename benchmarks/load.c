/* Sends POST requests to one HTTP/1.1 server and measures: as many clients as asked, each with one request at a time
 * (closed loop), or with one request altogether (wave), or arrivals at a rate, whether the server keeps up or not (open
 * loop, Poisson).
 *
 *     load HOST PORT PATH BODIES.jsonl (closed CLIENTS | wave CLIENTS | open RATE)
 *          SECONDS WARMUP DRAIN CONNECTIONS SEED FIELD
 *
 * Bodies are the lines of a file, sent in a random order that SEED fixes. A latency counts from when a request was to
 * arrive, not from when a connection was free for it; one that is still unanswered DRAIN seconds after the last
 * arrival counts with the time it has waited. A client of a closed loop that is refused with a Retry-After waits so
 * long, and sends the request again; each attempt counts as an arrival, and the latency from the first one. What arrives
 * in the first WARMUP seconds is not counted. Prints one line of JSON; FIELD is a number in the answers' JSON that is
 * added up. Knows nothing of translation.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 256, TIMER = UINT32_MAX };
static const double TICK = 0.01;   /* seconds until a connection that failed is tried again */
enum kind { CLOSED_LOOP, OPEN_LOOP, WAVE };
enum state { CLOSED, IDLE, CONNECTING, SENDING, RECEIVING };

struct bytes { char *data; size_t length, room; };
struct samples { double *seconds; size_t length, room; };

struct connection {
    int fd;
    enum state state;
    double intended;               /* when its request was to arrive */
    double due;                    /* when it is to be used again */
    const struct bytes *request;   /* head and body; after a refusal it stays, to be sent again */
    size_t sent;
    struct bytes answer;
};

static struct {
    enum kind kind;
    double rate, seconds, warmup, drain;
    size_t connections;
    struct sockaddr_in address;
    const char *field;
} option;

static struct bytes *requests;
static size_t request_count;
static struct connection *connections;
static uint32_t *unused;           /* a stack of connections without a request, those that are open on top */
static size_t unused_count;
static double *backlog;            /* arrivals that wait for a connection: when they were to arrive */
static size_t backlog_first, backlog_end, backlog_room;
static uint32_t *resting;          /* connections that failed or were refused, to be used again when they are due */
static size_t resting_count, in_flight;
static int poller, timer;
static uint64_t gaps, choices;   /* random streams: when a request is begun must not change when the next arrives */
static double counted_from, end;   /* arrivals between the two are counted */

static struct samples answered, refused, lag;
static long by_status[600], errors, unanswered, arrived, in_window;
static long long field_sum;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void *checked(void *memory) {
    if (!memory) fail("memory");
    return memory;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t random_bits(uint64_t *stream) {
    uint64_t z = *stream += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double random_gap(void) {   /* between two arrivals of a Poisson process */
    return -log1p(-(double)(random_bits(&gaps) >> 11) * 0x1p-53) / option.rate;
}

static void note(struct samples *samples, double seconds) {
    if (samples->length == samples->room) {
        samples->room = samples->room ? 2 * samples->room : 4096;
        samples->seconds = checked(realloc(samples->seconds, samples->room * sizeof *samples->seconds));
    }
    samples->seconds[samples->length++] = seconds;
}

static bool counted(const struct connection *connection) {
    return connection->intended >= counted_from && connection->intended < end;
}

static void watch(uint32_t number, uint32_t events, int operation) {
    struct epoll_event event = {.events = events, .data.u32 = number};
    if (epoll_ctl(poller, operation, connections[number].fd, &event)) fail("epoll_ctl");
}

static void start(uint32_t number, double intended);

/* The connection has no request any more: it takes the next one that is due, or goes back to the unused ones. */
static void release(uint32_t number) {
    if (option.kind == WAVE) return;
    if (option.kind == CLOSED_LOOP) {
        double time = now();
        if (time < end) start(number, connections[number].request ? connections[number].intended : time);
    } else if (backlog_first < backlog_end) {
        start(number, backlog[backlog_first++]);
    } else {
        unused[unused_count++] = number;
    }
}

static void close_connection(struct connection *connection) {
    close(connection->fd);
    connection->state = CLOSED;
}

static void rest(uint32_t number, double seconds) {
    connections[number].due = now() + seconds;
    resting[resting_count++] = number;
}

static void give_up(uint32_t number) {
    struct connection *connection = &connections[number];
    if (counted(connection)) errors++;
    close_connection(connection);
    connection->request = NULL;
    in_flight--;
    rest(number, TICK);
}

static void release_rested(double time) {
    size_t count = resting_count, kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t number = resting[i];
        if (connections[number].due > time) resting[kept++] = number;
        else release(number);
    }
    memmove(resting + kept, resting + count, (resting_count - count) * sizeof *resting);
    resting_count -= count - kept;
}

static void send_rest(uint32_t number) {
    struct connection *connection = &connections[number];
    const struct bytes *request = connection->request;
    size_t left = request->length - connection->sent;
    ssize_t sent = send(connection->fd, request->data + connection->sent, left, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        give_up(number);
        return;
    }
    if (sent > 0) connection->sent += (size_t)sent;
    bool all = connection->sent == request->length;
    if (all) connection->state = RECEIVING;
    watch(number, all ? EPOLLIN : EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
}

static void connect_socket(uint32_t number) {
    struct connection *connection = &connections[number];
    int yes = 1;
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (connection->fd < 0) fail("socket");
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    connection->state = CONNECTING;
    watch(number, EPOLLOUT, EPOLL_CTL_ADD);
    if (connect(connection->fd, (struct sockaddr *)&option.address, sizeof option.address) && errno != EINPROGRESS)
        give_up(number);
}

static void start(uint32_t number, double intended) {
    struct connection *connection = &connections[number];
    in_flight++;
    connection->intended = intended;
    if (!connection->request) connection->request = &requests[random_bits(&choices) % request_count];
    connection->sent = connection->answer.length = 0;
    if (counted(connection)) {
        arrived++;
        if (option.kind == OPEN_LOOP) note(&lag, now() - intended);
    }
    if (connection->state == CLOSED) {
        connect_socket(number);
    } else {
        connection->state = SENDING;
        send_rest(number);
    }
}

static const char *header(const char *head, const char *name) {
    size_t length = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (!strncasecmp(line + 2, name, length)) return line + 2 + length + strspn(line + 2 + length, " ");
    return NULL;
}

static long long number_after(const char *text, const char *field) {
    const char *place = strstr(text, field);
    if (!place) return 0;
    place += strlen(field);
    return strtoll(place + strspn(place, "\": "), NULL, 10);
}

static void finish(uint32_t number, int status, double retry_after, const char *body, bool keep) {
    struct connection *connection = &connections[number];
    double time = now();
    if (counted(connection)) {
        by_status[status]++;
        if (status == 200) note(&answered, time - connection->intended);
        if (status == 503) note(&refused, time - connection->intended);
    }
    if (status == 200 && time >= counted_from && time < end) {
        in_window++;
        field_sum += number_after(body, option.field);
    }
    in_flight--;
    connection->state = IDLE;
    if (!keep || option.kind == WAVE) close_connection(connection);  /* others may wait for it to close */
    if (option.kind == CLOSED_LOOP && retry_after > 0) {
        rest(number, retry_after);
        return;
    }
    connection->request = NULL;
    release(number);
}

/* Looks whether the answer is whole. What is no HTTP answer with a Content-Length is an error. */
static void examine(uint32_t number) {
    struct bytes *answer = &connections[number].answer;
    char *gap = memmem(answer->data, answer->length, "\r\n\r\n", 4);
    if (!gap) return;
    int status = answer->length > 12 ? atoi(answer->data + 9) : 0;
    char kept = gap[2];
    gap[2] = 0;
    const char *length = header(answer->data, "content-length:"), *connection = header(answer->data, "connection:");
    const char *retry = header(answer->data, "retry-after:");
    double retry_after = retry && (status == 503 || status == 429) ? atof(retry) : 0;
    bool keep = !connection || strncasecmp(connection, "close", 5);
    size_t whole = (size_t)(gap + 4 - answer->data) + (length ? strtoul(length, NULL, 10) : 0);
    gap[2] = kept;
    if (!length || status < 200 || status >= 600)
        give_up(number);
    else if (answer->length >= whole)
        finish(number, status, retry_after, gap + 4, keep);
}

static void receive(uint32_t number) {
    struct connection *connection = &connections[number];
    struct bytes *answer = &connection->answer;
    if (answer->room - answer->length < 4096) {
        answer->room += 8192;
        answer->data = checked(realloc(answer->data, answer->room));
    }
    ssize_t got = recv(connection->fd, answer->data + answer->length, answer->room - answer->length - 1, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (connection->state == IDLE) {  /* the server closes a connection that was unused: no error */
        close_connection(connection);
        return;
    }
    if (got <= 0) {
        give_up(number);
        return;
    }
    answer->length += (size_t)got;
    answer->data[answer->length] = 0;
    examine(number);
}

static void handle(uint32_t number, uint32_t events) {
    struct connection *connection = &connections[number];
    if (connection->state == CONNECTING) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error) {
            give_up(number);
            return;
        }
        connection->state = SENDING;
        send_rest(number);
    } else if (connection->state != CLOSED) {
        if (connection->state == SENDING && events & EPOLLOUT)
            send_rest(number);
        else
            receive(number);
    }
}

static void arrive(double intended) {
    if (unused_count) {
        start(unused[--unused_count], intended);
        return;
    }
    if (backlog_end == backlog_room) {
        backlog_room = backlog_room ? 2 * backlog_room : 4096;
        backlog = checked(realloc(backlog, backlog_room * sizeof *backlog));
    }
    backlog[backlog_end++] = intended;
}

static void arm(double time) {
    struct itimerspec at = {.it_value = {.tv_sec = (time_t)time, .tv_nsec = (long)((time - floor(time)) * 1e9)}};
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL)) fail("timerfd_settime");
}

/* Sends until `end`, then waits for what is on its way. */
static void run(double began) {
    struct epoll_event events[EVENTS];
    double next = option.kind == OPEN_LOOP ? began + random_gap() : end;
    if (option.kind != OPEN_LOOP)
        for (uint32_t number = 0; number < option.connections; number++) start(number, now());
    for (double time = now(), tick = time; time < end + option.drain; time = now()) {
        for (; next <= time && next < end; next += random_gap()) arrive(next);
        if (time >= tick) {
            release_rested(time);
            tick = time + TICK;
        }
        if ((time >= end || option.kind == WAVE) && !in_flight) break;
        double wake = next < end ? next : time < end ? end : end + option.drain;
        arm(resting_count ? fmin(wake, time + TICK) : wake);
        int count = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < count; i++)
            if (events[i].data.u32 != TIMER) handle(events[i].data.u32, events[i].events);
    }
}

static void count_unanswered(void) {
    double time = now();
    for (size_t number = 0; number < option.connections; number++) {
        struct connection *connection = &connections[number];
        if (connection->state >= CONNECTING && counted(connection)) {
            unanswered++;
            note(&answered, time - connection->intended);
        }
    }
    for (; backlog_first < backlog_end; backlog_first++)
        if (backlog[backlog_first] >= counted_from && backlog[backlog_first] < end) {
            arrived++;
            unanswered++;
            note(&answered, time - backlog[backlog_first]);
        }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_quantiles(const char *name, struct samples *samples) {
    static const double quantiles[] = {0.5, 0.95, 0.99, 1.0};
    static const char *const names[] = {"p50", "p95", "p99", "max"};
    if (samples->length) qsort(samples->seconds, samples->length, sizeof *samples->seconds, ascending);
    printf(", \"%s\": {", name);
    for (int i = 0; i < 4 && samples->length; i++) {
        size_t rank = (size_t)ceil(quantiles[i] * (double)samples->length);  /* the nearest rank */
        printf("%s\"%s\": %.3f", i ? ", " : "", names[i], 1e3 * samples->seconds[rank - 1]);
    }
    printf("}");
}

static void print_figures(double wall) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    printf("{\"arrived\": %ld, \"completed_per_s\": %.3f, \"field_per_s\": %.3f", arrived,
           (double)in_window / option.seconds, (double)field_sum / option.seconds);
    printf(", \"errors\": %ld, \"unanswered\": %ld, \"statuses\": {", errors, unanswered);
    for (int status = 0, first = 1; status < 600; status++)
        if (by_status[status]) {
            printf("%s\"%d\": %ld", first ? "" : ", ", status, by_status[status]);
            first = 0;
        }
    printf("}");
    print_quantiles("answered_ms", &answered);
    print_quantiles("refused_ms", &refused);
    print_quantiles("lag_ms", &lag);
    printf(", \"generator_cpu\": %.3f}\n", cpu / wall);
}

static void read_requests(const char *path, const char *host, const char *place) {
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0, most = 0;
    if (!file) fail(path);
    for (ssize_t length; (length = getline(&line, &room, file)) > 0;) {
        if (line[length - 1] == '\n') length--;
        if (request_count == most) {
            most = most ? 2 * most : 1024;
            requests = checked(realloc(requests, most * sizeof *requests));
        }
        char *request;
        int head = asprintf(&request,
                            "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %zd\r\n\r\n%.*s",
                            place, host, length, (int)length, line);
        if (head < 0) fail("asprintf");
        requests[request_count++] = (struct bytes){.data = request, .length = (size_t)head};
    }
    free(line);
    fclose(file);
    if (!request_count) {
        fprintf(stderr, "%s has no line\n", path);
        exit(1);
    }
}

static void prepare(void) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    connections = checked(calloc(option.connections, sizeof *connections));
    unused = checked(calloc(option.connections, sizeof *unused));
    resting = checked(calloc(2 * option.connections, sizeof *resting));
    for (size_t number = option.connections; option.kind == OPEN_LOOP && number > 0;) unused[unused_count++] = (uint32_t)--number;
    poller = epoll_create1(0);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = TIMER};
    if (poller < 0 || timer < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, timer, &event)) fail("epoll");
}

int main(int count, char **words) {
    if (count != 13) {
        fprintf(stderr, "usage: load HOST PORT PATH BODIES (closed CLIENTS | wave CLIENTS | open RATE) "
                        "SECONDS WARMUP DRAIN CONNECTIONS SEED FIELD\n");
        return 2;
    }
    option.address.sin_family = AF_INET;
    option.address.sin_port = htons((uint16_t)atoi(words[2]));
    if (inet_pton(AF_INET, words[1], &option.address.sin_addr) != 1) fail(words[1]);
    read_requests(words[4], words[1], words[3]);
    option.kind = !strcmp(words[5], "open") ? OPEN_LOOP : !strcmp(words[5], "wave") ? WAVE : CLOSED_LOOP;
    option.rate = atof(words[6]);
    option.seconds = atof(words[7]);
    option.warmup = atof(words[8]);
    option.drain = atof(words[9]);
    option.connections = option.kind == OPEN_LOOP ? strtoul(words[10], NULL, 10) : (size_t)option.rate;
    gaps = strtoull(words[11], NULL, 10);
    choices = ~gaps;
    option.field = words[12];
    prepare();
    double began = now();
    counted_from = began + option.warmup;
    end = counted_from + option.seconds;
    run(began);
    count_unanswered();
    print_figures(now() - began);
    return 0;
}
