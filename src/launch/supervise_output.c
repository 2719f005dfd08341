/* supervise_output.c - the ranks' lines on our two descriptors, each after its rank, never mixed.
 *
 *     rank 0 stdout --pipe--> buffer --.
 *     rank 1 stdout --pipe--> buffer ---+--> one line at a time --> standard output
 *     rank 2 stdout --pipe--> buffer --'
 *
 * An outlet takes a line from one stream and does not turn to the next before that line is
 * written; streams take turns. A line is shown when it is complete, when its stream ends (a
 * newline is added), or when it fills the buffer (it is broken there). Nothing blocks: pipes are
 * read only when there is room, and only as much is written as poll promises (a page), so that
 * signals are served while there is no reader. A reader that went away (head) is passed on: the
 * ranks' pipes are closed, and their writes fail as if they wrote to it themselves. */
#include "launch/supervise_int.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BUFFER = 64 << 10 };

static void end_stream(struct sup_stream *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

bool launch_screen_add(struct sup_screen *s, uint32_t rank, int to, int *ret_fd)
{
    struct sup_stream *n = &s->streams[s->count];
    int ends[2];
    char *buf = malloc(BUFFER);
    assert(to == STDOUT_FILENO || to == STDERR_FILENO);
    if (!buf || pipe2(ends, O_CLOEXEC)) {
        free(buf);
        return false;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* our end only: the rank's must block as usual */
    *n = (struct sup_stream){.fd = ends[0], .to = to, .buf = buf};
    snprintf(n->prefix, sizeof n->prefix, "[%u] ", rank);
    s->count++;
    *ret_fd = ends[1];
    return true;
}

/* Length of the next line that may be shown, with its newline if it has one; 0: none yet. */
static size_t line_of(const struct sup_stream *s)
{
    const char *start = s->buf + s->from, *end = memchr(start, '\n', s->len);
    if (end)
        return (size_t)(end - start) + 1;
    return s->fd < 0 || s->len == BUFFER ? s->len : 0;
}

/* Chooses the next line for the outlet, beginning after the stream that was last. False: no
 * line. */
static bool supervise_output_choose(struct sup_screen *s, int to)
{
    for (size_t k = 1; k <= s->count; k++) {
        size_t i = (s->outlets[to - 1].turn + k) % s->count, line;
        if (s->streams[i].to != to || !(line = line_of(&s->streams[i])))
            continue;
        s->outlets[to - 1].now = &s->streams[i];
        s->outlets[to - 1].turn = i;
        s->outlets[to - 1].line = line;
        s->outlets[to - 1].done = 0;
        return true;
    }
    return false;
}

/* Nobody reads the outlet any more: its streams end, and what they hold is dropped. */
static void give_up(struct sup_screen *s, int to)
{
    s->outlets[to - 1].broken = true;
    s->outlets[to - 1].now = NULL;
    for (size_t i = 0; i < s->count; i++)
        if (s->streams[i].to == to) {
            end_stream(&s->streams[i]);
            s->streams[i].len = 0;
        }
}

/* Fills v with up to a page of prefix, line and the newline that it may lack, from byte `done`
 * on. Returns the number of parts; 0: everything is written. */
static int supervise_output_gather(const struct sup_stream *s, size_t line, size_t done,
                                   struct iovec v[3])
{
    bool lacks = s->buf[s->from + line - 1] != '\n';
    const struct iovec parts[3] = {
        {(char *)s->prefix, strlen(s->prefix)}, {s->buf + s->from, line}, {(char *)"\n", lacks}};
    size_t room = PIPE_BUF;
    int n = 0;
    for (int i = 0; i < 3; i++) {
        size_t skip = done < parts[i].iov_len ? done : parts[i].iov_len,
               take = parts[i].iov_len - skip;
        take = take < room ? take : room;
        if (take)
            v[n++] = (struct iovec){(char *)parts[i].iov_base + skip, take};
        done -= skip;
        room -= take;
    }
    return n;
}

/* Makes one write; poll has promised that it does not block. */
static void supervise_output_show(struct sup_screen *s, int to)
{
    struct iovec v[3];
    struct sup_stream *from = s->outlets[to - 1].now;
    size_t line = s->outlets[to - 1].line;
    int n = supervise_output_gather(from, line, s->outlets[to - 1].done, v);
    ssize_t wrote = writev(to, v, n);
    if (wrote < 0) {
        if (errno != EINTR && errno != EAGAIN)
            give_up(s, to);
        return;
    }
    s->outlets[to - 1].done += (size_t)wrote;
    if (supervise_output_gather(from, line, s->outlets[to - 1].done, v))
        return;
    from->from += line;
    from->len -= line;
    s->outlets[to - 1].now = NULL;
}

/* Reads once. When the buffer's end is reached, the unwritten bytes move to its beginning. */
static void supervise_output_fill(struct sup_stream *s)
{
    if (s->from && s->from + s->len == BUFFER) {
        memmove(s->buf, s->buf + s->from, s->len);
        s->from = 0;
    }
    size_t end = s->from + s->len;
    ssize_t got = read(s->fd, s->buf + end, BUFFER - end);
    if (got > 0)
        s->len += (size_t)got;
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        end_stream(s);
}

/* May the stream be read? Not when its buffer is full, nor when making room would move a line
 * that is being written. */
static bool has_room(const struct sup_screen *s, const struct sup_stream *st)
{
    bool writing = s->outlets[st->to - 1].now == st;
    return st->fd >= 0 && st->len < BUFFER && !(writing && st->from + st->len == BUFFER);
}

size_t launch_screen_poll(struct sup_screen *s, struct pollfd *fds)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        if (has_room(s, &s->streams[i]))
            fds[n++] = (struct pollfd){.fd = s->streams[i].fd, .events = POLLIN};
    for (int to = STDOUT_FILENO; to <= STDERR_FILENO; to++)
        if (s->count && (s->outlets[to - 1].now || supervise_output_choose(s, to)))
            fds[n++] = (struct pollfd){.fd = to, .events = POLLOUT};
    return n;
}

void launch_screen_serve(struct sup_screen *s, const struct pollfd *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!fds[i].revents)
            continue;
        if (fds[i].events == POLLOUT && s->outlets[fds[i].fd - 1].now)
            supervise_output_show(s, fds[i].fd);
        for (size_t k = 0; fds[i].events == POLLIN && k < s->count; k++)
            if (s->streams[k].fd == fds[i].fd)
                supervise_output_fill(&s->streams[k]);
    }
}

bool launch_screen_idle(const struct sup_screen *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->streams[i].fd >= 0 || s->streams[i].len)
            return false;
    return true;
}

void launch_screen_cut(struct sup_screen *s)
{
    for (size_t i = 0; i < s->count; i++)
        end_stream(&s->streams[i]);
}

void launch_screen_close(struct sup_screen *s)
{
    launch_screen_cut(s);
    for (size_t i = 0; i < s->count; i++)
        free(s->streams[i].buf);
    free(s->streams);
    *s = (struct sup_screen){0};
}
