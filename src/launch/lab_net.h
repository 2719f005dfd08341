/* lab_net.h - an emulated network: hosts as network namespaces on one switch, or on a switch per
 * group, with links shaped to a rate. Needs root and the tools ip and tc. */
#ifndef LAUNCH_LAB_NET_H
#define LAUNCH_LAB_NET_H

#include <stdbool.h>
#include <stdint.h>

enum { LAB_MAX_NODES = 250 };

struct lab_node {
    char name[48];     /* of its namespace: tutti-lab-PID-I */
    char host[16];     /* its host name: nodeI */
    char address[16];  /* 10.77.0.(I+1) */
    double rate_bytes; /* of its link, each way, per second */
    int netns;         /* descriptor of the namespace; -1: not made */
    const char *hosts; /* the text of its /etc/hosts */
};

/* The network that is wanted. Rates are bytes per second in each direction. */
struct lab_want {
    uint32_t nodes, groups;           /* groups 0: all hosts on one switch */
    double rates[LAB_MAX_NODES];      /* by host */
    uint32_t group_of[LAB_MAX_NODES]; /* by host */
    double uplink;                    /* of every group */
};

struct lab_net {
    struct lab_node *nodes;
    uint32_t count;
    char *hosts; /* all names and addresses */
};

/* Removes what killed labs have left: namespaces named after a process that no longer exists,
 * and the processes in them. */
void launch_lab_sweep(void);
/* Makes the network. False after a complaint was printed, or when a signal that ends jobs came
 * meanwhile. Call launch_lab_close in any case: it removes what was made. */
bool launch_lab_open(struct lab_net *ret, const struct lab_want *want);
/* Ends the processes in the namespaces and removes them. */
void launch_lab_close(struct lab_net *net);
/* Moves the calling process into a node (the `enter` of struct sup_rank): network, host name,
 * /etc/hosts, /dev/shm and System V objects are the node's own; other files and process numbers
 * are the machine's. */
int launch_lab_enter(const void *node, const char **ret_what);
#endif
