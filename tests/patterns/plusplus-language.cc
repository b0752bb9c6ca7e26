// C++'s language support: exceptions across frames and threads, run-time types, static
// and thread-local objects, memory that is refused.
#include "library.h"

#include <cstdlib>
#include <cxxabi.h>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <typeindex>
#include <typeinfo>
#include <vector>

namespace {

int living;

// Counts the objects that are there.
struct Counted {
    Counted() { living++; }
    Counted(const Counted &) { living++; }
    ~Counted() { living--; }
};

class Refused : public std::runtime_error {
public:
    Refused(const std::string &what, int code) : std::runtime_error(what), code(code) {}
    int code;
};

// Throws from the given depth, with an object on every frame.
int descend(int depth) {
    Counted here;
    if (depth == 0)
        throw Refused("at the bottom", 42);
    return descend(depth - 1) + 1;
}

void exceptions() {
    try {
        descend(100);
        CHECK(!"no exception");
    } catch (const std::logic_error &) {
        CHECK(!"the wrong handler");
    } catch (const std::runtime_error &error) {
        CHECK(living == 0 && !strcmp(error.what(), "at the bottom"));
        const Refused *refused = dynamic_cast<const Refused *>(&error);
        CHECK(refused && refused->code == 42);
    }
    // Thrown on, and by value of another type.
    int seen = 0;
    try {
        try {
            throw 7;
        } catch (int number) {
            seen = number;
            throw;
        }
    } catch (...) {
        CHECK(seen == 7 && std::current_exception() != nullptr);
    }
    // Nested.
    try {
        try {
            descend(3);
        } catch (...) {
            std::throw_with_nested(std::invalid_argument("outer"));
        }
    } catch (const std::exception &outer) {
        try {
            std::rethrow_if_nested(outer);
            CHECK(!"not nested");
        } catch (const Refused &inner) {
            CHECK(!strcmp(outer.what(), "outer") && inner.code == 42);
        }
    }
    CHECK(living == 0 && std::uncaught_exceptions() == 0);
    // From a constructor: what was made is destroyed.
    struct Half {
        Counted first;
        Half() { throw std::string("half"); }
    };
    try {
        Half half;
    } catch (const std::string &text) {
        CHECK(text == "half" && living == 0);
    }
    // Of the library.
    try {
        std::vector<int>().at(3);
        CHECK(!"no exception");
    } catch (const std::out_of_range &) {
    }
    std::error_code code(ENOENT, std::generic_category());
    CHECK(code == std::errc::no_such_file_or_directory);
    try {
        throw std::system_error(code, "opening");
    } catch (const std::system_error &error) {
        CHECK(error.code().value() == ENOENT);
        CHECK(std::string(error.what()) == "opening: No such file or directory");
    }
}

void between_threads() {
    std::exception_ptr carried;
    std::thread([&] {
        try {
            descend(10);
        } catch (...) {
            carried = std::current_exception();
        }
    }).join();
    try {
        std::rethrow_exception(carried);
    } catch (const Refused &refused) {
        CHECK(refused.code == 42 && living == 0);
    }
    // Many at once: the unwinder's tables are shared.
    std::vector<std::thread> threads;
    std::vector<int> caught(4);
    for (int &count : caught)
        threads.emplace_back([&count] {
            for (int round = 0; round < 200; round++)
                try {
                    throw round;
                } catch (int) {
                    count++;
                }
        });
    for (std::thread &thread : threads)
        thread.join();
    CHECK((caught == std::vector<int>{200, 200, 200, 200}));
}

struct Base {
    virtual ~Base() = default;
};
struct Left : virtual Base {};
struct Right : virtual Base {};
struct Both : Left, Right {};

void types() {
    std::unique_ptr<Base> object(new Both);
    CHECK(dynamic_cast<Left *>(object.get()) && dynamic_cast<Right *>(object.get()));
    Left *left = dynamic_cast<Left *>(object.get());
    CHECK(dynamic_cast<Right *>(left) && typeid(*left) == typeid(Both));
    std::unique_ptr<Base> plain(new Base);
    CHECK(!dynamic_cast<Both *>(plain.get()));
    try {
        (void)dynamic_cast<Both &>(*plain);
        CHECK(!"no exception");
    } catch (const std::bad_cast &) {
    }
    CHECK(std::type_index(typeid(int)) != std::type_index(typeid(long)));
    int status = -1;
    char *name = abi::__cxa_demangle(typeid(std::vector<int>).name(), nullptr, nullptr, &status);
    CHECK(status == 0 && strstr(name, "vector<int"));
    free(name);
}

thread_local std::string own = "begin";
int ended;

struct AtEnd {
    ~AtEnd() { ended++; }
};

void objects() {
    thread_local AtEnd here;
    (void)&here;
    own = "main";
    std::thread([] {
        thread_local AtEnd there;
        (void)&there;
        CHECK(own == "begin");
        own = "thread";
    }).join();
    CHECK(own == "main" && ended == 1);
    // A static object is made once, by whoever comes first.
    static int made;
    auto make = [] {
        struct Slow {
            Slow() {
                std::this_thread::yield();
                made++;
            }
        };
        static Slow slow;
        (void)&slow;
    };
    std::thread first(make), second(make);
    first.join();
    second.join();
    CHECK(made == 1);
    // It is made again when its constructor has thrown.
    static int tries;
    for (int round = 0; round < 2; round++)
        try {
            struct Stubborn {
                Stubborn() {
                    if (++tries == 1)
                        throw 1;
                }
            };
            static Stubborn stubborn;
            (void)&stubborn;
        } catch (int) {
        }
    CHECK(tries == 2);
}

void memory() {
    volatile size_t much = std::numeric_limits<size_t>::max() / 4;
    // Volatile, as compilers leave out what makes and deletes memory that nobody looks at.
    char *volatile block;
    try {
        block = new char[much];
        CHECK(!"no exception");
    } catch (const std::bad_alloc &) {
    }
    block = new (std::nothrow) char[much];
    CHECK(block == nullptr);
    struct alignas(256) Wide {
        char bytes[256];
    };
    auto wide = std::make_unique<Wide>();
    CHECK(reinterpret_cast<uintptr_t>(wide.get()) % 256 == 0);
}

} // namespace

// One's own `new` and `delete` replace the library's.
int own_news;

struct Mine {
    static void *operator new(size_t size) {
        own_news++;
        return ::operator new(size);
    }
    static void operator delete(void *block) { ::operator delete(block); }
};

int main() {
    exceptions();
    between_threads();
    types();
    objects();
    memory();
    delete new Mine;
    CHECK(own_news == 1);
    return finish("plusplus-language");
}
