/* SPDX-License-Identifier: MIT */
/*
 * A linked list whose head is lost: every node is a live block, reachable or not.
 *
 * leak: node count=250 bytes=4000 frames=push,main@call sites=1
 * leak: head count=1 bytes=8 frames=main
 */
#include <stdlib.h>

#include "scenario.h"

struct node {
	struct node *next;
	long value;
};

static NOINLINE void push(struct node **head, long value)
{
	struct node *n = malloc(sizeof(*n)); /* LEAK:node */
	n->next = *head;
	n->value = value;
	*head = n;
}

int main(void)
{
	struct node **head = calloc(1, sizeof(*head)); /* LEAK:head */
	for (long i = 0; i < 250; i++)
		push(head, i); /* AT:call */
	KEEP(NULL);
	return (int)opaque_zero;
}
