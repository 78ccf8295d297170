/* SPDX-License-Identifier: MIT */
#ifndef MT_ANALYSIS_FACTS_H
#define MT_ANALYSIS_FACTS_H

/*
 * What the block table says about a group of blocks, each weighed by how it was chosen. Private to
 * analysis.
 */

#include "analysis/table.h"
#include "model/profile.h"

enum { MT_FACTS_QUARTERS = 4 };

/* Sums are whole numbers unless blocks were sampled. All-zero: no block. */
struct mt_facts {
	double count, bytes;
	double large_count, large_bytes;
	double quarter_bytes[MT_FACTS_QUARTERS]; /* by time of birth */
	double lost_count, lost_bytes;           /* as a look found them */
	double held_count, held_bytes;
	uint64_t recorded; /* blocks in the table */
	uint64_t oldest_age_ns, newest_age_ns;
};

/* How sure these sums are; kept when any profile of the table was sampled. */
struct mt_chance {
	struct mt_estimate live, large;
	struct mt_estimate only; /* of the blocks that the other side of a comparison lacks */
};

/* Times of a profile's blocks. */
struct mt_ages {
	const struct mt_profile *p;
	struct mt_profile_clock clock;
	uint64_t born_ns; /* of a block with this birth; 0: not known */
	uint32_t born;
};

void mt_ages_init(struct mt_ages *a, const struct mt_profile *p);
uint64_t mt_ages_of(struct mt_ages *a, const struct mt_profile_block *block);

/* Adds a block. chance may be NULL. is_only: it counts in chance->only. */
void mt_facts_add(struct mt_facts *f, struct mt_chance *chance, struct mt_ages *a,
		  const struct mt_profile_block *block, bool is_only);

/* Adds a group of blocks that are all known, and in no other profile. chance may be NULL. */
void mt_facts_add_group(struct mt_facts *f, struct mt_chance *chance,
			const struct mt_profile_group *group);

/* Tells chance that blocks were looked for so, though maybe none was found. */
void mt_chance_expect(struct mt_chance *chance, const struct mt_sampling *how);

/* Tells chance that samples are missing: its sums are lower bounds. */
void mt_chance_lacks(struct mt_chance *chance);

/* Whether every quarter of a long run left its share. */
bool mt_facts_is_growing(const struct mt_facts *f, const struct mt_profile *p);

/* To the nearest whole number, within range. */
uint64_t mt_facts_round(double v);

/* How sure a site's figure of a measure is that does not come from the block table: total, peak. */
struct mt_estimate mt_facts_site(const struct mt_profile *p, uint32_t site,
				 enum mt_measure measure);
/* The same for a cell's total. */
struct mt_estimate mt_facts_cell_total(const struct mt_profile *p, uint32_t cell);

/*
 * Keys of p's blocks in increasing order that profiles of the same process among `others` have,
 * too: *ret_count of them, caller frees with free(). NULL: none, or no memory (*ret_failed).
 */
uint64_t *mt_facts_keys(const struct mt_profile *p, const struct mt_profile *const *others,
			uint32_t other_count, size_t *ret_count, bool *ret_failed);
bool mt_facts_has_key(const uint64_t *keys, size_t count, uint64_t key);

#endif
