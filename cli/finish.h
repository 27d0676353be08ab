/* SPDX-License-Identifier: Apache-2.0 */
/* How the command ends: standard output that could not be written, signals, temporaries. */
#ifndef ATTN_CLI_FINISH_H
#define ATTN_CLI_FINISH_H

#include <attn/attn_io.h>
#include <stdbool.h>

/* On SIGINT, SIGTERM and SIGHUP the temporaries of the set are removed and the command ends: with exit code 130, or by the signal itself.
   Called by the main thread. */
void finish_install_handlers(void);
/* The set whose temporaries a signal (or an early exit) removes; NULL: none. */
void finish_watch(attn_outputs *set);
/* With true, SIGINT no longer ends the command at once but is remembered for finish_interrupted, so that what is there can be said first; a
   second one ends it. */
void finish_hold_interrupts(bool hold);
bool finish_interrupted(void);
/* Flushes standard output. 0, or EXIT_TROUBLE after a message when something was not written. */
int finish_stdout(void);
#endif
