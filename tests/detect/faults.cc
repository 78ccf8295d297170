/* SPDX-License-Identifier: MIT */
/*
 * The faults in C++: variant c of those in faults.c, through new, containers and objects; and the
 * mismatches, which only C++ has, in all three variants.
 */
#include "faults.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <malloc.h>
#include <sys/mman.h>

namespace
{

template <typename T> T *hidden(T *p)
{
	HIDE(p);
	return p;
}

/* Raw storage that knows its size, as a container has it. */
template <typename T> class Storage
{
      public:
	explicit Storage(size_t count)
	    : data_(hidden(static_cast<T *>(::operator new(count * sizeof(T))))), count_(count)
	{
		std::fill_n(data_, count_, T());
	}
	Storage(const Storage &) = delete;
	Storage &operator=(const Storage &) = delete;
	~Storage()
	{
		::operator delete(data_);
	}
	T &operator[](long i)
	{
		return data_[i];
	}
	T *data()
	{
		return data_;
	}
	size_t bytes() const
	{
		return count_ * sizeof(T);
	}

      private:
	T *data_;
	size_t count_;
};

struct Node {
	Node *left = nullptr, *right = nullptr;
	long value = 0;
	char name[40] = "";
};

__attribute__((noinline)) void drop(void *p)
{
	::operator delete(p);
}

template <typename T> void told(const Storage<T> &storage, long at)
{
	tell(storage.bytes(), at);
}

/* --- writes behind a block --- */

void overflow_by_one(const job *job)
{
	std::string from(job->size, 'x');
	Storage<char> copy(from.size() + !job->fault);
	told(copy, (long)job->size);
	std::copy(from.begin(), from.end(), copy.data());
	copy[(long)from.size()] = '\0';
}

void overflow_by_some(const job *job)
{
	std::vector<char> trailer(job->far, 't');
	Storage<char> message(job->size + (job->fault ? 0 : job->far));
	told(message, (long)job->size);
	for (size_t i = 0; i < trailer.size(); i++)
		message[(long)(job->size + i)] = trailer[i];
}

void overflow_far(const job *job)
{
	std::vector<char> table(job->size);
	size_t index = job->size + job->far;
	tell(job->size, (long)index);
	if (job->fault)
		hidden(table.data())[index] = 1;
}

void overflow_with_a_gap(const job *job)
{
	struct Point {
		float x, y, z, weight;
	};
	Storage<Point> points(job->size / sizeof(Point));
	told(points, (long)points.bytes() + 12);
	for (size_t i = 0; i < job->size / sizeof(Point) + (job->fault ? 1 : 0); i++)
		points[(long)i].weight = 1.5f;
}

void memcpy_past(const job *job)
{
	std::string packet(job->size + job->far, 'p');
	Storage<char> copy(job->fault ? job->size : packet.size());
	tell(job->size, (long)job->size);
	memcpy(copy.data(), packet.data(), packet.size());
}

void memset_past(const job *job)
{
	char *record = hidden(new char[job->size]);
	tell(job->size, (long)job->size);
	memset(record, 0, job->size + (job->fault ? job->far : 0));
	delete[] record;
}

char *(*volatile copy_text)(char *, const char *) = strcpy; /* see faults.c */

void strcpy_past(const job *job)
{
	std::string from(job->size, 's');
	std::unique_ptr<char[]> copy(hidden(new char[from.size() + (job->fault ? 0 : 1)]));
	tell(job->size, (long)job->size);
	copy_text(copy.get(), from.c_str());
}

void calloc_past(const job *job)
{
	std::unique_ptr<int, void (*)(void *)> cell(
		static_cast<int *>(hidden(calloc(job->size / 4, 4))), free);
	tell(job->size / 4 * 4, (long)(job->size / 4 * 4));
	std::for_each(cell.get(), cell.get() + job->size / 4 + (job->fault ? job->far / 4 : 0),
		      [](int &c) { c = 1; });
}

void posix_memalign_past(const job *job)
{
	struct alignas(64) Line {
		unsigned char byte[64];
	};
	size_t count = job->size / sizeof(Line);
	Line *line = hidden(new Line[count]);
	tell(count * sizeof(Line), (long)(count * sizeof(Line)));
	for (size_t i = 0; i < count * sizeof(Line) + (job->fault ? job->far : 0); i++)
		hidden(&line[0].byte[0])[i] = 7;
	delete[] line;
}

void memalign_past(const job *job)
{
	auto *page = static_cast<char *>(hidden(::operator new(job->size, std::align_val_t(512))));
	tell(job->size, (long)job->size);
	std::fill_n(page, job->size + (job->fault ? job->far : 0), 'x');
	::operator delete(page, std::align_val_t(512));
}

void aligned_alloc_before(const job *job)
{
	auto *page = static_cast<char *>(hidden(::operator new(job->size, std::align_val_t(128))));
	tell(job->size, -(long)job->far);
	if (job->fault)
		page[-(long)job->far] = 1;
	page[0] = 1;
	::operator delete(page, std::align_val_t(128));
}

void grown_too_late(const job *job)
{
	size_t room = job->size / sizeof(double);
	std::vector<double> numbers;
	numbers.reserve(room);
	numbers.resize(room, 1.0);
	double *begin = hidden(numbers.data());
	tell(room * sizeof(double), (long)(room * sizeof(double)));
	begin[room - (job->fault ? 0 : 1)] = 2.0;
}

void past_the_shrunk_end(const job *job)
{
	std::vector<char> buffer(job->size, 'a');
	size_t kept = job->size - job->far;
	if (job->fault) {
		buffer.resize(kept);
		buffer.shrink_to_fit();
	}
	tell(kept, (long)kept);
	std::fill_n(hidden(buffer.data()), job->size, 'b');
}

void vector_off_by_one(const job *job)
{
	std::vector<int> numbers(job->size, 3);
	numbers.shrink_to_fit();
	tell(job->size * sizeof(int), (long)(job->size * sizeof(int)));
	for (size_t i = 0; job->fault ? i <= job->size : i < job->size; i++)
		hidden(numbers.data())[i] = (int)i;
}

void into_the_rounding(const job *job)
{
	struct __attribute__((packed)) Odd {
		char name[9];
	};
	Storage<Odd> odd(job->size / sizeof(Odd));
	told(odd, (long)odd.bytes());
	auto *byte = hidden(reinterpret_cast<char *>(odd.data()));
	for (size_t i = 0; i < odd.bytes() + (job->fault ? job->far : 0); i++)
		byte[i] = 'o';
}

/* --- writes before a block --- */

void underflow_by_one(const job *job)
{
	Storage<char> line(job->size);
	told(line, -1);
	long last = std::find(line.data(), line.data() + job->size, '\0') - line.data() - 1;
	if (job->fault || last >= 0)
		line[last] = '.';
}

void underflow_by_some(const job *job)
{
	Storage<short> stack(job->size / 2);
	told(stack, -(long)(job->far / 2 * 2));
	short *top = stack.data();
	for (size_t i = 0; i < job->far / 2 && (job->fault || top > stack.data()); i++)
		*--top = 0x0101;
}

void underflow_far(const job *job)
{
	std::vector<char> ring(job->size);
	tell(job->size, -(long)job->far);
	if (job->fault)
		hidden(ring.data())[-(long)job->far] = 1;
}

/* --- reads outside of a block --- */

void read_by_one(const job *job)
{
	Storage<long> number(job->size / sizeof(long));
	told(number, (long)number.bytes());
	for (size_t i = 0;
	     job->fault ? i <= job->size / sizeof(long) : i < job->size / sizeof(long); i++)
		seen += (unsigned long)number[(long)i];
}

void read_by_some(const job *job)
{
	std::string key(job->size + job->far, 'k');
	Storage<char> other(job->size);
	told(other, (long)job->size);
	for (size_t i = 0; i < (job->fault ? key.size() : job->size); i++)
		seen += key[i] == other[(long)i];
}

void read_far(const job *job)
{
	std::vector<char> table(job->size);
	tell(job->size, (long)(job->size + job->far));
	if (job->fault)
		seen += (unsigned char)hidden(table.data())[job->size + job->far];
}

void read_before(const job *job)
{
	Storage<char> line(job->size);
	told(line, -(long)job->far);
	for (long i = 0; i < (long)job->far && job->fault; i++)
		seen += (unsigned char)line[-1 - i];
}

void memcpy_from_past(const job *job)
{
	std::vector<char> from(job->size, 'f'), to(job->size + job->far);
	tell(job->size, (long)job->size);
	memcpy(to.data(), hidden(from.data()), job->size + (job->fault ? job->far : 0));
	seen += (unsigned char)to[0];
}

/* --- use after free --- */

void use_after_free_write(const job *job)
{
	auto *node = hidden(new Node);
	tell(sizeof(Node), 16);
	if (job->fault)
		delete node;
	hidden(node)->value = 77;
	if (!job->fault)
		delete node;
}

void use_after_free_write_late(const job *job)
{
	std::vector<std::unique_ptr<Node>> others;
	auto *name = hidden(new std::string(job->size, 'n'));
	char *inside = hidden(&(*name)[0]);
	tell(job->size + 1, (long)job->far);
	if (job->fault)
		delete name;
	for (int i = 0; i < 40; i++) {
		others.push_back(std::make_unique<Node>());
		if (i % 3)
			others.erase(others.begin());
	}
	hidden(inside)[job->far] = 'w';
	if (!job->fault)
		delete name;
}

/* An iterator is used after the vector has grown. */
void use_after_free_memset(const job *job)
{
	std::vector<char> bytes(job->size, 'b');
	auto *first = hidden(bytes.data());
	tell(job->size, 0);
	bytes.resize(job->fault ? job->size * 20 : job->size);
	memset(hidden(first), 0, job->size);
}

void use_after_free_read(const job *job)
{
	std::map<int, std::string> names;
	names[1] = std::string(job->size, 'm');
	const char *name = hidden(names[1].data());
	tell(job->size + 1, 0);
	if (job->fault)
		names.erase(1);
	seen += (unsigned char)*name;
}

void use_after_free_copy(const job *job)
{
	std::string copy(job->size, ' ');
	const char *view;
	auto *name = hidden(new std::string(job->size, 'v'));
	view = hidden(name->c_str());
	tell(job->size + 1, 0);
	if (job->fault)
		delete name;
	memcpy(&copy[0], view, job->size);
	seen += (unsigned char)copy[0];
	if (!job->fault)
		delete name;
}

void use_after_free_in_a_list(const job *job)
{
	Node *list = nullptr;
	for (int i = 0; i < 3; i++) {
		auto *node = hidden(new Node);
		node->left = list;
		list = node;
	}
	tell(sizeof(Node), 0);
	Node *next;
	for (int i = 0; i < 3 && list; i++, list = next) {
		next = list->left;
		delete list;
		if (job->fault)
			next = hidden(list)->left;
		seen += reinterpret_cast<uintptr_t>(next);
		if (job->fault && i == 0)
			break;
	}
}

void use_after_realloc(const job *job)
{
	std::string text(job->size, 't');
	char *word = hidden(&text[job->far]);
	tell(text.capacity() + 1, (long)job->far);
	text.append(job->fault ? 10000 : 0, 'u');
	*hidden(word) = 'w';
}

void *delete_in_thread(void *p)
{
	delete static_cast<Node *>(p);
	return nullptr;
}

void use_after_free_by_a_thread(const job *job)
{
	auto *node = hidden(new Node);
	tell(sizeof(Node), 16);
	if (job->fault)
		in_thread(delete_in_thread, node);
	hidden(node)->value = 5;
	if (!job->fault)
		in_thread(delete_in_thread, node);
}

/* --- wrong frees --- */

void double_free(const job *job)
{
	auto *node = new Node;
	std::unique_ptr<Node> owner(node), other(job->fault ? hidden(node) : nullptr);
	tell(sizeof(Node), 0);
}

void double_free_late(const job *job)
{
	auto *name = hidden(new char[job->size]);
	tell(job->size, 0);
	delete[] name;
	std::vector<char> other(job->size, 'o');
	if (job->fault)
		delete[] hidden(name);
	std::fill(other.begin(), other.end(), 'p');
	if (job->fault && hidden(other.data()) == name)
		new (&other) std::vector<char>; /* its storage is gone */
}

void double_free_by_a_thread(const job *job)
{
	auto *node = hidden(new Node);
	tell(sizeof(Node), 0);
	in_thread(delete_in_thread, node);
	if (job->fault)
		delete hidden(node);
}

void realloc_after_free(const job *job)
{
	struct Free {
		void operator()(void *p) const
		{
			free(p);
		}
	};
	void *raw = hidden(malloc(job->size));
	tell(job->size, 0);
	std::unique_ptr<void, Free> owner(raw);
	if (job->fault)
		owner.reset();
	else
		owner.release();
	std::unique_ptr<void, Free> grown(realloc(raw, job->size + job->far));
}

void free_of_a_variable(const job *job)
{
	Node local;
	Node *node = job->fault ? &local : new Node;
	node->value = 1;
	delete hidden(node);
}

Node global_node[2];

void free_of_a_global(const job *job)
{
	delete hidden(job->fault ? &global_node[1] : new Node);
}

void free_inside_a_block(const job *job)
{
	auto *bytes = new char[job->size];
	std::unique_ptr<char[]> owner(bytes);
	if (job->fault)
		delete[] hidden(bytes + job->far);
}

void free_of_an_element(const job *job)
{
	std::vector<Node> nodes(job->size / sizeof(Node));
	if (job->fault)
		delete hidden(&nodes[job->far / sizeof(Node)]);
}

void free_of_a_number(const job *job)
{
	uintptr_t number = job->fault ? 0x20000008 + job->far : 0;
	HIDE(number);
	delete reinterpret_cast<Node *>(number);
}

void free_of_a_mapping(const job *job)
{
	void *map = mmap(nullptr, job->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	auto *node = new (map) Node;
	if (job->fault)
		delete hidden(node);
	else
		munmap(map, job->size);
}

/* --- leaks --- */

void leak_lost(const job *job)
{
	for (size_t i = 0; i < job->far; i++) {
		std::unique_ptr<std::vector<char>> owner(new std::vector<char>(job->size));
		if (job->fault)
			hidden(owner.release());
	}
}

void leak_of_a_cycle(const job *job)
{
	struct Peer {
		std::shared_ptr<Peer> other;
		char payload[64];
	};
	auto a = std::make_shared<Peer>(), b = std::make_shared<Peer>();
	a->other = b;
	if (job->fault)
		b->other = a;
}

Node *global_list;

void leak_still_reachable(const job *job)
{
	global_list = new Node;
	global_list->left = new Node;
	if (!job->fault) {
		delete global_list->left;
		delete global_list;
		global_list = nullptr;
	}
}

/* An exception leaves before the delete. */
void leak_by_realloc(const job *job)
{
	try {
		auto *block = hidden(new char[job->size]);
		std::unique_ptr<char[]> owner(job->fault ? nullptr : block);
		throw std::bad_alloc();
	} catch (const std::bad_alloc &) {
		seen += 1;
	}
}

void *in_leak_of_a_thread(void *p)
{
	thread_local char *buffer;
	const auto *job = static_cast<const struct job *>(p);
	buffer = hidden(new char[job->size]);
	if (!job->fault)
		delete[] buffer;
	return nullptr;
}

void leak_of_a_thread(const job *job)
{
	in_thread(in_leak_of_a_thread, const_cast<struct job *>(job));
}

Node *global_middle;

void leak_with_inner_pointer(const job *job)
{
	auto *nodes = new Node[job->size / sizeof(Node)];
	global_middle = nodes + job->far / sizeof(Node);
	if (!job->fault)
		delete[] nodes;
	nodes = nullptr;
	HIDE(nodes);
}

/* --- mismatches --- */

void new_and_free(const job *job)
{
	if (job->size == sizeof(Node)) {
		auto *node = hidden(new Node);
		job->fault ? free(node) : delete node;
		return;
	}
	auto *bytes = hidden(new char[job->size]);
	job->fault ? free(bytes) : delete[] bytes;
}

void malloc_and_delete(const job *job)
{
	void *raw = hidden(job->far ? calloc(job->far, job->size) : malloc(job->size));
	tell(job->size * std::max<size_t>(job->far, 1), 0);
	if (job->fault) {
		std::unique_ptr<Node> owner(static_cast<Node *>(raw));
		return;
	}
	free(raw);
}

void new_array_and_delete(const job *job)
{
	auto *numbers = hidden(new int[job->size]);
	tell(job->size * sizeof(int), 0);
	std::unique_ptr<int> one(job->fault ? numbers : nullptr);
	if (!job->fault)
		delete[] numbers;
}

void new_and_delete_array(const job *job)
{
	struct Block {
		char byte[200];
	};
	if (job->size >= sizeof(Block)) {
		auto *block = hidden(new Block);
		job->fault ? delete[] block : delete block;
		return;
	}
	auto *number = hidden(new long(3));
	job->fault ? delete[] number : delete number;
}

#define FAULT(name, size, far) \
	{ \
#name, name, \
		{ \
			{}, {}, \
			{ \
				size, far, 0 \
			} \
		} \
	}
#define FAULTS(name, size_a, far_a, size_b, far_b, size_c, far_c) \
	{ \
#name, name, \
		{ \
			{size_a, far_a, 0}, {size_b, far_b, 0}, \
			{ \
				size_c, far_c, 0 \
			} \
		} \
	}

const struct fault faults[] = {
	FAULT(overflow_by_one, 300, 1),
	FAULT(overflow_by_some, 120, 16),
	FAULT(overflow_far, 700, 3000),
	FAULT(overflow_with_a_gap, 480, 12),
	FAULT(memcpy_past, 600, 12),
	FAULT(memset_past, 88, 24),
	FAULT(strcpy_past, 150, 1),
	FAULT(calloc_past, 400, 12),
	FAULT(posix_memalign_past, 640, 5),
	FAULT(memalign_past, 1111, 9),
	FAULT(aligned_alloc_before, 512, 8),
	FAULT(grown_too_late, 800, 8),
	FAULT(past_the_shrunk_end, 500, 25),
	FAULT(vector_off_by_one, 33, 4),
	FAULT(into_the_rounding, 45, 2),
	FAULT(underflow_by_one, 90, 1),
	FAULT(underflow_by_some, 256, 16),
	FAULT(underflow_far, 900, 700),
	FAULT(read_by_one, 160, 8),
	FAULT(read_by_some, 200, 20),
	FAULT(read_far, 400, 2000),
	FAULT(read_before, 320, 8),
	FAULT(memcpy_from_past, 900, 16),
	FAULT(use_after_free_write, 64, 16),
	FAULT(use_after_free_write_late, 500, 123),
	FAULT(use_after_free_memset, 300, 0),
	FAULT(use_after_free_read, 100, 0),
	FAULT(use_after_free_copy, 400, 0),
	FAULT(use_after_free_in_a_list, 64, 0),
	FAULT(use_after_realloc, 200, 150),
	FAULT(use_after_free_by_a_thread, 64, 16),
	FAULT(double_free, 64, 0),
	FAULT(double_free_late, 222, 0),
	FAULT(double_free_by_a_thread, 64, 0),
	FAULT(realloc_after_free, 100, 900),
	FAULT(free_of_a_variable, 64, 0),
	FAULT(free_of_a_global, 64, 0),
	FAULT(free_inside_a_block, 640, 64),
	FAULT(free_of_an_element, 6400, 640),
	FAULT(free_of_a_number, 64, 0x1000),
	FAULT(free_of_a_mapping, 4096, 0),
	FAULT(leak_lost, 333, 3),
	FAULT(leak_of_a_cycle, 100, 0),
	FAULT(leak_still_reachable, 64, 0),
	FAULT(leak_by_realloc, 222, 0),
	FAULT(leak_of_a_thread, 128, 0),
	FAULT(leak_with_inner_pointer, 6400, 640),
	FAULTS(new_and_free, 24, 0, 4000, 0, sizeof(Node), 0),
	FAULTS(malloc_and_delete, sizeof(Node), 0, 5000, 0, sizeof(Node), 5),
	FAULTS(new_array_and_delete, 4, 0, 1000, 0, 50, 0),
	FAULTS(new_and_delete_array, 8, 0, 400, 0, 16, 0),
};

} // namespace

int main(int argc, char **argv)
{
	return run_fault(argc, argv, faults, sizeof(faults) / sizeof(faults[0]));
}
