/* SPDX-License-Identifier: Apache-2.0 */
/* Trace-event JSON, as ui.perfetto.dev and chrome://tracing read it: a process
 * a rank, charts over time as counters, slices on tracks. */
#include "config.h"

#include "src/report.h"
#include "src/report_out.h"

#include <stdlib.h>
#include <string.h>

enum { TRACKS = 256 };

struct perfetto {
    unsigned process; /* the last one named: charts belong to it */
    struct {
        unsigned process;
        char *name;
    } tracks[TRACKS]; /* number = index + 1 */
    unsigned track_count;
};

static void
string(FILE *file, const char *text)
{
    fputc('"', file);
    dcp_json_string(file, text, strlen(text));
    fputc('"', file);
}

/* Begins an event of a phase. */
static FILE *
event(struct dcp_out *out, char phase, unsigned process)
{
    fprintf(out->file, "%s\n{\"ph\": \"%c\", \"pid\": %u",
            out->items++ ? "," : "", phase, process);
    return out->file;
}

static void
perfetto_begin(struct dcp_out *out, const char *title)
{
    out->state = dcp_xcalloc(1, sizeof(struct perfetto));
    fputs("{\"displayTimeUnit\": \"ms\", \"otherData\": {\"title\": ",
          out->file);
    string(out->file, title);
    fputs("}, \"traceEvents\": [", out->file);
}

static void
perfetto_end(struct dcp_out *out)
{
    struct perfetto *perfetto = out->state;

    fputs("\n]}\n", out->file);
    for (unsigned i = 0; i < perfetto->track_count; i++)
        free(perfetto->tracks[i].name);
    free(perfetto);
}

static void
name_event(struct dcp_out *out, const char *what, unsigned process,
           unsigned track, const char *name)
{
    FILE *file = event(out, 'M', process);

    fprintf(file, ", \"tid\": %u, \"name\": \"%s\", \"args\": {\"name\": ",
            track, what);
    string(file, name);
    fputs("}}", file);
}

static void
perfetto_process(struct dcp_out *out, unsigned process, const char *name)
{
    struct perfetto *perfetto = out->state;

    perfetto->process = process;
    name_event(out, "process_name", process, 0, name);
}

/* The number of a track; a new one is named. */
static unsigned
track_of(struct dcp_out *out, unsigned process, const char *name)
{
    struct perfetto *perfetto = out->state;
    unsigned n = perfetto->track_count;

    for (unsigned i = 0; i < n; i++)
        if (perfetto->tracks[i].process == process &&
            !strcmp(perfetto->tracks[i].name, name))
            return i + 1;
    if (n == TRACKS)
        return TRACKS;
    perfetto->tracks[n].process = process;
    perfetto->tracks[n].name = dcp_xstrndup(name, strlen(name));
    perfetto->track_count = n + 1;
    name_event(out, "thread_name", process, n + 1, name);
    return n + 1;
}

static void
perfetto_slice(struct dcp_out *out, const struct dcp_slice *slice)
{
    unsigned track = track_of(out, slice->process, slice->track);
    FILE *file = event(out, 'X', slice->process);

    fprintf(file, ", \"tid\": %u, \"ts\": %.3f, \"dur\": %.3f, \"name\": ",
            track, slice->begin_us, slice->length_us);
    string(file, slice->name);
    if (slice->detail) {
        fputs(", \"args\": {\"detail\": ", file);
        string(file, slice->detail);
        fputc('}', file);
    }
    fputc('}', file);
}

/* Counters: the stacked areas together, each line by itself. */
static void
counter(struct dcp_out *out, const struct dcp_chart *chart, size_t sample,
        const char *name, unsigned from, unsigned to)
{
    const struct perfetto *perfetto = out->state;
    const uint64_t *y = chart->y + sample * chart->series;
    FILE *file = event(out, 'C', perfetto->process);

    fprintf(file, ", \"ts\": %.3f, \"name\": ",
            chart->start_us + (double)chart->x[sample] / 1000);
    string(file, name);
    fputs(", \"args\": {", file);
    for (unsigned s = from; s < to; s++) {
        fputs(s > from ? ", " : "", file);
        string(file, chart->names[s]);
        fprintf(file, ": %llu",
                y[s] == DCP_NO_VALUE ? 0 : (unsigned long long)y[s]);
    }
    fputs("}}", file);
}

static void
perfetto_chart(struct dcp_out *out, const struct dcp_chart *chart)
{
    if (chart->x_kind != DCP_CELL_NS || chart->look != DCP_CHART_AREAS)
        return;
    for (size_t i = 0; i < chart->samples; i++) {
        if (chart->areas)
            counter(out, chart, i, chart->title, 0, chart->areas);
        for (unsigned s = chart->areas; s < chart->series; s++)
            counter(out, chart, i, chart->names[s], s, s + 1);
    }
}

const struct dcp_out_ops dcp_out_perfetto = {
    .name = "perfetto",
    .whole_page = true,
    .begin = perfetto_begin,
    .end = perfetto_end,
    .chart = perfetto_chart,
    .slice = perfetto_slice,
    .process = perfetto_process,
};
