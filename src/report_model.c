/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/report_model.h"

#include "src/report_scan.h"
#include "src/report_timeline.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- which files --------------------------------------------------------- */

struct file {
    char *path;
    unsigned long rank, pid; /* pid 0: the rank's first process */
};

struct files {
    struct file *list;
    size_t count, room;
};

static void
add_file(struct files *files, char *path, unsigned long rank,
         unsigned long pid)
{
    files->list = dcp_xgrow(files->list, files->count, &files->room,
                            sizeof *files->list);
    files->list[files->count++] = (struct file){path, rank, pid};
}

/* rank<N>.dcp and rank<N>.<pid>.dcp */
static bool
parse_name(const char *name, unsigned long *rank, unsigned long *pid)
{
    char *end;

    if (strncmp(name, "rank", 4) || name[4] < '0' || name[4] > '9')
        return false;
    *rank = strtoul(name + 4, &end, 10);
    *pid = 0;
    if (end[0] == '.' && end[1] >= '0' && end[1] <= '9')
        *pid = strtoul(end + 1, &end, 10);
    return !strcmp(end, ".dcp");
}

static int
compare_files(const void *a, const void *b)
{
    const struct file *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static void
find_files(const char *path, long rank, struct files *files)
{
    unsigned long number, pid;
    struct stat st;

    if (stat(path, &st))
        dcp_die("%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode)) {
        add_file(files, dcp_xprintf("%s", path), 0, 0);
        return;
    }
    DIR *dir = opendir(path);
    if (!dir)
        dcp_die("%s: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir));)
        if (parse_name(entry->d_name, &number, &pid) &&
            (rank < 0 || number == (unsigned long)rank))
            add_file(files, dcp_xprintf("%s/%s", path, entry->d_name), number,
                     pid);
    closedir(dir);
    if (files->count == 0 && rank >= 0)
        dcp_die("%s: no trace of rank %ld", path, rank);
    if (files->count == 0)
        dcp_die("%s: no traces here (files named rank<N>.dcp)", path);
    qsort(files->list, files->count, sizeof *files->list, compare_files);
}

/* --- what follows from the records --------------------------------------- */

static int
compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

uint64_t
dcp_median(uint64_t *values, size_t count)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, compare_numbers);
    return values[(count - 1) / 2];
}

/* Median step times. The very first iteration (of those not followed) loads
 * libraries and tunes; it counts only where there is no other. */
static void
derive_times(struct dcp_model_rank *rank)
{
    size_t n = rank->iteration_count, eager = 0, replayed = 0;
    uint64_t *values = dcp_xcalloc(2 * n, sizeof *values);

    for (size_t i = 0; i < n; i++) {
        const struct dcp_model_iteration *it = &rank->iterations[i];
        if (it->followed)
            values[n + replayed++] = it->end_ns - it->begin_ns;
        else
            values[eager++] = it->end_ns - it->begin_ns;
    }
    bool skip = eager > 1 && !rank->iterations[0].followed;
    rank->eager_ns = dcp_median(values + skip, eager - skip);
    rank->replayed_ns = dcp_median(values + n, replayed);
    free(values);
}

static void
derive_sums(struct dcp_model_rank *rank)
{
    rank->first_followed = rank->iteration_count;
    for (size_t i = 0; i < rank->iteration_count; i++) {
        const struct dcp_model_iteration *it = &rank->iterations[i];
        if (!it->followed)
            continue;
        if (rank->followed++ == 0)
            rank->first_followed = i;
        rank->swallowed += it->swallowed;
        rank->updates += it->updates;
        rank->launches += it->launches;
        rank->replayed_calls += it->calls;
        struct dcp_model_graph *graph =
            dcp_model_graph_find(rank, it->variant);
        if (graph)
            graph->followed++;
    }
}

static void
derive_library_time(struct dcp_model_rank *rank)
{
    uint64_t until = UINT64_MAX;

    if (rank->first_followed < rank->iteration_count)
        until = rank->iterations[rank->first_followed].end_ns;
    for (size_t g = 0; g < rank->graph_count; g++) {
        const struct dcp_model_graph *graph = &rank->graphs[g];
        if (graph->time_ns <= until)
            rank->library_ns += graph->build_ns;
    }
    for (size_t s = 0; s < rank->segment_count; s++)
        if (rank->segments[s].time_ns <= until)
            rank->library_ns += rank->segments[s].build_ns;
}

static void
parse_graph(struct dcp_model_rank *rank, struct dcp_model_graph *graph)
{
    const struct dcp_model_pass *last = NULL;
    struct dcp_ir_error error;
    size_t length;

    for (size_t p = 0; p < graph->pass_count; p++)
        if (graph->passes[p].has_text)
            last = &graph->passes[p];
    char *text = dcp_model_text(rank, graph, last, &length);
    if (!text)
        return;
    char *name = dcp_xprintf("%s: graph %llu", rank->path,
                             (unsigned long long)graph->number);
    if (dcp_ir_parse(text, length, name, &graph->ir, &error))
        dcp_complain("%s", error.text);
    free(name);
    free(text);
}

/* The trace's own node times go before those that the text holds. */
static void
time_graph(const struct dcp_model_rank *rank, struct dcp_model_graph *graph)
{
    uint32_t n = graph->ir ? graph->ir->node_count : 0;

    graph->gpu_ns = dcp_xcalloc(n, sizeof *graph->gpu_ns);
    for (uint32_t i = 0; i < n; i++)
        graph->gpu_ns[i] = graph->ir->nodes[i].gpu_ns;
    for (size_t i = 0; i < rank->time_count; i++)
        if (rank->times[i].graph == graph->number && rank->times[i].node < n)
            graph->gpu_ns[rank->times[i].node] =
                rank->times[i].ns / rank->times[i].count;
    for (uint32_t i = 0; i < n; i++)
        graph->gpu_total += graph->gpu_ns[i];
}

static int
compare_reasons(const void *a, const void *b)
{
    const struct dcp_model_reason *x = a, *y = b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return strcmp(x->text, y->text);
}

static int
compare_calls(const void *a, const void *b)
{
    const struct dcp_model_call *x = a, *y = b;

    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return strcmp(x->symbol, y->symbol);
}

static void
sort_items(void *items, size_t count, size_t size,
           int (*compare)(const void *, const void *))
{
    if (count > 1)
        qsort(items, count, size, compare);
}

static void
derive(struct dcp_model_rank *rank)
{
    derive_times(rank);
    derive_sums(rank);
    derive_library_time(rank);
    for (size_t g = 0; g < rank->graph_count; g++) {
        parse_graph(rank, &rank->graphs[g]);
        time_graph(rank, &rank->graphs[g]);
    }
    sort_items(rank->reasons, rank->reason_count, sizeof *rank->reasons,
               compare_reasons);
    sort_items(rank->calls, rank->call_count, sizeof *rank->calls,
               compare_calls);
}

/* --- public -------------------------------------------------------------- */

static bool
read_rank(struct dcp_model_rank *rank, const struct file *file)
{
    char error[512];

    if (dcp_trace_reader_open(file->path, &rank->reader, error,
                              sizeof error)) {
        dcp_complain("%s", error);
        return false;
    }
    const struct dcp_trace_head *head = dcp_trace_reader_head(rank->reader);
    rank->path = dcp_trace_reader_path(rank->reader);
    rank->rank = head->rank;
    rank->world = head->world;
    rank->pid = head->pid;
    rank->start_ns = rank->end_ns = head->start_ns;
    rank->wall_ns = head->wall_ns;
    rank->writer = dcp_trace_reader_writer(rank->reader);
    dcp_model_scan(rank);
    rank->end = dcp_trace_reader_end(rank->reader);
    if (rank->end != DCP_TRACE_WHOLE)
        rank->end_message =
            dcp_xprintf("%s", dcp_trace_reader_message(rank->reader));
    if (rank->end_message)
        dcp_complain("%s", rank->end_message);
    if (file->pid)
        rank->label = dcp_xprintf("rank %llu (pid %lu)",
                                  (unsigned long long)rank->rank, file->pid);
    else
        rank->label =
            dcp_xprintf("rank %llu", (unsigned long long)rank->rank);
    derive(rank);
    rank->timeline = dcp_timeline_fill(rank);
    dcp_progress(NULL, 0, 0);
    return true;
}

static void
release_rank(struct dcp_model_rank *rank)
{
    dcp_timeline_destroy(rank->timeline, rank->graph_count);
    dcp_model_scan_release(rank);
    dcp_trace_reader_close(rank->reader);
    free(rank->end_message);
    free(rank->label);
}

struct dcp_model *
dcp_model_read(const char *path, long rank)
{
    struct dcp_model *model = dcp_xcalloc(1, sizeof *model);
    struct files files = {0};

    find_files(path, rank, &files);
    for (size_t i = 0; i < files.count; i++) {
        model->ranks = dcp_xgrow(model->ranks, model->rank_count,
                                 &model->rank_room, sizeof *model->ranks);
        struct dcp_model_rank *r = &model->ranks[model->rank_count];
        memset(r, 0, sizeof *r);
        r->index = (unsigned)model->rank_count;
        if (read_rank(r, &files.list[i]))
            model->rank_count++;
        free(files.list[i].path);
    }
    free(files.list);
    if (model->rank_count == 0)
        dcp_die("%s: no trace could be read", path);
    return model;
}

void
dcp_model_destroy(struct dcp_model *model)
{
    if (!model)
        return;
    for (size_t i = 0; i < model->rank_count; i++)
        release_rank(&model->ranks[i]);
    free(model->ranks);
    free(model);
}

struct dcp_model_graph *
dcp_model_graph_find(const struct dcp_model_rank *rank, uint64_t number)
{
    for (size_t i = 0; i < rank->graph_count; i++)
        if (rank->graphs[i].number == number)
            return &rank->graphs[i];
    return NULL;
}

char *
dcp_model_text(const struct dcp_model_rank *rank,
               const struct dcp_model_graph *graph,
               const struct dcp_model_pass *pass, size_t *length)
{
    struct dcp_trace_event e;
    uint64_t offset = pass ? pass->offset : graph->offset;

    if (offset == 0)
        return NULL;
    dcp_trace_reader_seek(rank->reader, offset);
    if (!dcp_trace_reader_next(rank->reader, &e))
        return NULL;
    size_t skip = pass ? strlen(e.payload) + 1 : 0;
    if (e.payload_bytes <= skip)
        return NULL;
    *length = e.payload_bytes - skip;
    char *text = dcp_xrealloc(NULL, *length + 1, 1);
    memcpy(text, e.payload + skip, *length + 1);
    return text;
}

double
dcp_model_base_us(const struct dcp_model *model,
                  const struct dcp_model_rank *rank)
{
    uint64_t first = rank->wall_ns;

    for (size_t i = 0; i < model->rank_count; i++)
        if (model->ranks[i].wall_ns < first)
            first = model->ranks[i].wall_ns;
    return (double)(rank->wall_ns - first) / 1000;
}
