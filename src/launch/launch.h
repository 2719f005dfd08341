/* launch.h - commands that start processes as the ranks of one job: on these machines (run) or on
 * emulated hosts (lab). */
#ifndef LAUNCH_H
#define LAUNCH_H

#include "cli/cli.h"

extern const struct cli_command launch_run, launch_lab;
#endif
