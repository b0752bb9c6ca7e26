// SCIF from C++ between two nodes: `plusplus-pair serve` serves one client, `plusplus-pair NODE` is
// that client. Each part has a serving and a calling side with a port of its own.
#include "library.h"
#include "plusplus.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr size_t PAGE = 4096;
// How long a side waits for the other one.
constexpr auto PATIENCE = 60s;

// Connects as soon as somebody listens there.
Endpoint call(uint16_t node, uint16_t port) {
    for (auto end = Clock::now() + PATIENCE;; std::this_thread::sleep_for(5ms)) {
        Endpoint endpoint;
        scif_portID to{node, port};
        if (scif_connect(endpoint, &to) >= 0)
            return endpoint;
        std::error_code code(errno, std::generic_category());
        bool early = code == std::errc::connection_refused || code == std::errc::no_such_device;
        if (!early || Clock::now() > end)
            throw std::system_error(code, "connect");
    }
}

Endpoint serve_one(uint16_t port) {
    Endpoint listener;
    listener.listen(port, 1);
    return listener.accept();
}

// Waits until memory that the peer writes has a value.
void await(const volatile uint64_t &word, uint64_t value) {
    auto end = Clock::now() + PATIENCE;
    while (word != value) {
        if (Clock::now() > end)
            throw std::runtime_error("the peer's signal has not come");
        std::this_thread::sleep_for(1ms);
    }
}

std::vector<uint64_t> numbers(size_t count, uint64_t seed) {
    std::mt19937_64 engine(seed);
    std::vector<uint64_t> all(count);
    std::generate(all.begin(), all.end(), std::ref(engine));
    return all;
}

// ---- Streams: a thread for each of several connections at once, both ways ----

constexpr uint16_t STREAMS = 4310;
constexpr int CONNECTIONS = 4, VECTORS = 20;

// Vectors of any length, each sent back in reverse.
void reverse(Endpoint endpoint) {
    for (int vector = 0; vector < VECTORS; vector++) {
        std::vector<uint64_t> all(endpoint.get<uint32_t>());
        endpoint.receive(all.data(), all.size() * sizeof all[0]);
        std::reverse(all.begin(), all.end());
        endpoint.send(all.data(), all.size() * sizeof all[0]);
    }
}

void serve_streams() {
    Endpoint listener;
    listener.listen(STREAMS, CONNECTIONS);
    std::vector<std::future<void>> threads;
    for (int connection = 0; connection < CONNECTIONS; connection++)
        threads.push_back(std::async(std::launch::async, reverse, listener.accept()));
    for (auto &thread : threads)
        thread.get();
}

void call_streams(uint16_t node) {
    std::vector<std::future<int>> threads;
    for (int connection = 0; connection < CONNECTIONS; connection++)
        threads.push_back(std::async(std::launch::async, [=] {
            Endpoint endpoint = call(node, STREAMS);
            int right = 0;
            for (int vector = 0; vector < VECTORS; vector++) {
                auto sent = numbers(1 + vector * 997, connection * VECTORS + vector);
                endpoint.put(static_cast<uint32_t>(sent.size()));
                endpoint.send(sent.data(), sent.size() * sizeof sent[0]);
                std::vector<uint64_t> back(sent.size());
                endpoint.receive(back.data(), back.size() * sizeof back[0]);
                right += std::equal(sent.rbegin(), sent.rend(), back.begin());
            }
            return right;
        }));
    for (auto &thread : threads)
        CHECK(thread.get() == VECTORS);
}

// ---- Windows: the whole pages inside a vector, registered where they are ----

constexpr uint16_t WINDOWS = 4311;
constexpr size_t LENGTH = 64 * PAGE, WORDS = LENGTH / sizeof(uint64_t);
// The last page is for signals.
constexpr size_t DATA = WORDS - PAGE / sizeof(uint64_t);

// A vector with pages of which a window is made; what lies around them stays the program's.
class Window {
public:
    explicit Window(const Endpoint &endpoint)
        : endpoint_(endpoint), all_(WORDS + 2 * PAGE / sizeof(uint64_t), UNTOUCHED) {
        void *place = all_.data();
        size_t space = all_.size() * sizeof all_[0];
        words_ = static_cast<uint64_t *>(std::align(PAGE, LENGTH, place, space));
        int both = SCIF_PROT_READ | SCIF_PROT_WRITE;
        offset_ = Endpoint::checked(scif_register(endpoint, words_, LENGTH, 0, both, 0), "register");
    }
    Window(const Window &) = delete;
    ~Window() { CHECK(scif_unregister(endpoint_, offset_, LENGTH) == 0 || errno == ECONNRESET); }

    uint64_t *words() { return words_; }
    off_t offset() const { return offset_; }
    // Whether the words around the pages are as they were.
    bool is_whole() const {
        auto is = [](uint64_t word) { return word == UNTOUCHED; };
        const uint64_t *begin = all_.data(), *end = begin + all_.size();
        return std::all_of(begin, const_cast<const uint64_t *>(words_), is) &&
               std::all_of(const_cast<const uint64_t *>(words_) + WORDS, end, is);
    }

private:
    // No number of a round.
    static constexpr uint64_t UNTOUCHED = ~uint64_t{0};

    const Endpoint &endpoint_;
    std::vector<uint64_t> all_;
    uint64_t *words_;
    off_t offset_;
};

// The peer's window in the own address space.
struct Unmap {
    void operator()(volatile uint64_t *words) const {
        CHECK(scif_munmap(const_cast<uint64_t *>(words), LENGTH) == 0);
    }
};
using Mapping = std::unique_ptr<volatile uint64_t, Unmap>;

Mapping map(const Endpoint &endpoint, off_t offset) {
    int both = SCIF_PROT_READ | SCIF_PROT_WRITE;
    void *place = scif_mmap(nullptr, LENGTH, both, 0, endpoint, offset);
    if (place == SCIF_MMAP_FAILED)
        throw std::system_error(errno, std::generic_category(), "map");
    return Mapping(static_cast<volatile uint64_t *>(place));
}

off_t place_of(off_t window, size_t word) {
    return window + static_cast<off_t>(word * sizeof(uint64_t));
}

// Data comes with a signal behind it; the answer goes through a mapping of the peer's window.
void serve_windows() {
    Endpoint endpoint = serve_one(WINDOWS);
    Window window(endpoint);
    endpoint.put(window.offset());
    auto peer = map(endpoint, endpoint.get<off_t>());
    uint64_t *words = window.words();
    for (uint64_t round = 1; round <= 3; round++) {
        await(words[DATA], round);
        CHECK(std::equal(words, words + DATA, numbers(DATA, round).begin()));
        peer.get()[0] = std::accumulate(words, words + DATA, uint64_t{0});
        std::atomic_thread_fence(std::memory_order_seq_cst);
        peer.get()[DATA] = round;
    }
    endpoint.get<char>();
    CHECK(window.is_whole());
    endpoint.put('e');
}

void call_windows(uint16_t node) {
    Endpoint endpoint = call(node, WINDOWS);
    Window window(endpoint);
    endpoint.put(window.offset());
    off_t peer = endpoint.get<off_t>();
    uint64_t *words = window.words();
    for (uint64_t round = 1; round <= 3; round++) {
        auto data = numbers(DATA, round);
        uint64_t sum = std::accumulate(data.begin(), data.end(), uint64_t{0});
        if (round == 2) {
            // From the vector itself, which is not registered and begins anywhere.
            int length = static_cast<int>(DATA * sizeof data[0]);
            Endpoint::checked(scif_vwriteto(endpoint, data.data(), length, peer, 0), "write");
        } else {
            std::copy(data.begin(), data.end(), words);
            size_t length = DATA * sizeof data[0];
            off_t from = window.offset();
            Endpoint::checked(scif_writeto(endpoint, from, length, peer, 0), "write");
        }
        int signal = SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_REMOTE;
        off_t to = place_of(peer, DATA);
        Endpoint::checked(scif_fence_signal(endpoint, 0, 0, to, round, signal), "signal");
        await(words[DATA], round);
        CHECK(words[0] == sum);
        // And back, into a string at an odd address.
        std::string text(PAGE + 2, '-');
        off_t from = place_of(peer, 5);
        int wait = SCIF_RMA_SYNC;
        Endpoint::checked(scif_vreadfrom(endpoint, &text[1], PAGE, from, wait), "read");
        CHECK(!memcmp(&text[1], &data[5], PAGE) && text.front() == '-' && text.back() == '-');
    }
    endpoint.put('e');
    endpoint.get<char>();
    CHECK(window.is_whole());
}

// ---- Memory that goes before its window: the heap may use it again ----

constexpr uint16_t EARLY = 4312;

void serve_early() {
    Endpoint endpoint = serve_one(EARLY);
    void *memory = nullptr;
    CHECK(posix_memalign(&memory, PAGE, LENGTH) == 0);
    memset(memory, 0, LENGTH);
    off_t offset = scif_register(endpoint, memory, LENGTH, 0, SCIF_PROT_WRITE, 0);
    Endpoint::checked(offset, "register");
    endpoint.put(offset);
    endpoint.get<char>();
    auto *bytes = static_cast<unsigned char *>(memory);
    CHECK(std::all_of(bytes, bytes + LENGTH, [](unsigned char byte) { return byte == 0xab; }));
    free(memory);
    CHECK(scif_unregister(endpoint, offset, LENGTH) == 0);
    std::vector<uint64_t> again(WORDS, 7);
    endpoint.put('u');
    endpoint.get<char>();
    CHECK(std::all_of(again.begin(), again.end(), [](uint64_t word) { return word == 7; }));
    endpoint.put('e');
}

void call_early(uint16_t node) {
    Endpoint endpoint = call(node, EARLY);
    off_t peer = endpoint.get<off_t>();
    std::vector<unsigned char> bytes(LENGTH, 0xab);
    int length = static_cast<int>(LENGTH), wait = SCIF_RMA_SYNC;
    Endpoint::checked(scif_vwriteto(endpoint, bytes.data(), length, peer, wait), "write");
    endpoint.put('w');
    endpoint.get<char>();
    FAILS(scif_vwriteto(endpoint, bytes.data(), length, peer, wait), ENXIO);
    endpoint.put('t');
    endpoint.get<char>();
}

// ---- Exceptions: the way out of an error, which closes what was open ----

constexpr uint16_t ERRORS = 4313;

// A server that gives up: the exception goes through frames and a thread.
void give_up(const Endpoint &endpoint) {
    Window window(endpoint);
    endpoint.put(window.offset());
    try {
        std::vector<int> orders(endpoint.get<uint32_t>());
        orders.at(orders.size()) = 1;
    } catch (const std::out_of_range &) {
        std::throw_with_nested(std::runtime_error("a bad order"));
    }
}

void serve_errors() {
    auto served = std::async(std::launch::async, [] {
        Endpoint endpoint = serve_one(ERRORS);
        give_up(endpoint);
    });
    try {
        served.get();
        CHECK(!"no exception");
    } catch (const std::runtime_error &error) {
        CHECK(!strcmp(error.what(), "a bad order"));
        try {
            std::rethrow_if_nested(error);
            CHECK(!"no cause");
        } catch (const std::out_of_range &) {
        }
    }
}

// The client finds out by each of its calls.
void call_errors(uint16_t node) {
    Endpoint endpoint = call(node, ERRORS);
    off_t peer = endpoint.get<off_t>();
    auto mapping = map(endpoint, peer);
    endpoint.put(uint32_t{3});
    try {
        endpoint.get<char>();
        CHECK(!"no exception");
    } catch (const std::system_error &error) {
        CHECK(error.code() == std::errc::connection_reset);
        CHECK(std::string(error.what()).find("receive") == 0);
    }
    std::vector<char> bytes(PAGE);
    FAILS(scif_vreadfrom(endpoint, bytes.data(), PAGE, peer, SCIF_RMA_SYNC), ECONNRESET);
    scif_pollepd entry{endpoint, SCIF_POLLIN, 0};
    auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(PATIENCE);
    CHECK(scif_poll(&entry, 1, limit.count()) == 1 && (entry.revents & SCIF_POLLHUP));
}

struct Part {
    const char *name;
    void (*serve)();
    void (*call)(uint16_t node);
};

constexpr Part PARTS[] = {
    {"streams", serve_streams, call_streams},
    {"windows", serve_windows, call_windows},
    {"memory that goes early", serve_early, call_early},
    {"errors", serve_errors, call_errors},
};

} // namespace

int main(int count, char **words) {
    if (count != 2)
        return 99;
    std::string word = words[1];
    for (const Part &part : PARTS) {
        try {
            if (word == "serve")
                part.serve();
            else
                part.call(static_cast<uint16_t>(std::stoi(word)));
        } catch (const std::exception &error) {
            printf("%s: %s\n", part.name, error.what());
            return 100;
        }
    }
    return finish("plusplus-pair");
}
