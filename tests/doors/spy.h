/* SPDX-License-Identifier: Apache-2.0 */
/* A library to preload which has the doors and nothing else of dcprel: its
 * sink writes down what it sees. */
#ifndef DCP_DOORS_SPY_H
#define DCP_DOORS_SPY_H

enum spy_mode {
    SPY_LOOK,
    SPY_SWALLOW, /* before() answers SPY_RESULT; the driver sees nothing */
    SPY_REPLACE, /* after() turns the result into SPY_RESULT */
    SPY_CALL,    /* both ends make driver calls of their own */
    SPY_GONE,    /* before() takes the sink away */
    SPY_COUNT,   /* only count: for several threads */
};
enum { SPY_RESULT = 999 };

enum spy_ear { SPY_DEAF, SPY_EAR, SPY_BARE /* a sink that does nothing */ };

struct spy {
    enum spy_mode mode;
    const char *symbol; /* of the last call */
    const char *canon;
    int kind, ptds;
    _Atomic unsigned before, after; /* how often */
    unsigned init, init_done;
    int result;             /* that after() got */
    _Alignas(16) unsigned char args[256]; /* that before() got */
};

/* Exported by the spy. */
struct spy *spy_get(void);
void spy_mute(int on);
void spy_listen(enum spy_ear ear);

#endif
