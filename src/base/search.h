/* SPDX-License-Identifier: MIT */
#ifndef MT_BASE_SEARCH_H
#define MT_BASE_SEARCH_H

/* Binary search in an array that is sorted by a member of type uint64_t. */

#include <stddef.h>
#include <stdint.h>

/* How many elements, from the first on, have a member below the value. */
#define MT_SEARCH_BELOW(array, count, member, value) \
	mt_search(MT_SEARCH_ARRAY(array, member), (count), sizeof(*(array)), (value), 0)

/* The same for a member below the value, or equal. */
#define MT_SEARCH_UP_TO(array, count, member, value) \
	mt_search(MT_SEARCH_ARRAY(array, member), (count), sizeof(*(array)), (value), 1)

/* The first element's member; array may be NULL where there is none. */
#define MT_SEARCH_ARRAY(array, member) \
	((uintptr_t)(array) + offsetof(__typeof__(*(array)), member) + \
	 0 * sizeof(char[sizeof((array)->member) == sizeof(uint64_t) ? 1 : -1]))

static inline size_t mt_search(uintptr_t first, size_t count, size_t item_bytes, uint64_t value,
			       int or_equal)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t at = *(const uint64_t *)(first + middle * item_bytes);

		if (at < value || (or_equal && at == value))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#endif
