// The parts of C++'s standard library that are over the system: threads, time, files, directories;
// and a connection of SCIF between threads that throw.
#include "library.h"
#include "plusplus.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <mutex>
#include <queue>
#include <shared_mutex>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

void threads() {
    std::mutex mutex;
    std::condition_variable filled;
    std::queue<int> queue;
    long sum = 0;
    std::thread consumer([&] {
        for (int taken = 0; taken < 1000; taken++) {
            std::unique_lock<std::mutex> lock(mutex);
            filled.wait(lock, [&] { return !queue.empty(); });
            sum += queue.front();
            queue.pop();
        }
    });
    for (int number = 0; number < 1000; number++) {
        std::lock_guard<std::mutex> lock(mutex);
        queue.push(number);
        filled.notify_one();
    }
    consumer.join();
    CHECK(sum == 499500);

    std::atomic<int> count{0};
    std::vector<std::thread> all;
    for (int thread = 0; thread < 8; thread++)
        all.emplace_back([&] {
            for (int round = 0; round < 1000; round++)
                count++;
        });
    for (auto &thread : all)
        thread.join();
    CHECK(count == 8000 && std::thread::hardware_concurrency() >= 1);
    CHECK(std::this_thread::get_id() != std::thread::id());

    auto answer = std::async(std::launch::async, [] { return 42; });
    CHECK(answer.get() == 42);
    auto refused = std::async(std::launch::async, []() -> int { throw std::domain_error("no"); });
    try {
        refused.get();
        CHECK(!"no exception");
    } catch (const std::domain_error &error) {
        CHECK(!strcmp(error.what(), "no"));
    }
    std::promise<int> never;
    CHECK(never.get_future().wait_for(1ms) == std::future_status::timeout);

    std::shared_mutex shared;
    std::shared_lock<std::shared_mutex> reader(shared), other(shared);
    CHECK(!shared.try_lock() && shared.try_lock_shared());
    shared.unlock_shared();
    std::recursive_mutex again;
    std::lock_guard<std::recursive_mutex> once(again), twice(again);
    std::timed_mutex timed;
    timed.lock();
    std::thread([&] { CHECK(!timed.try_lock_for(2ms)); }).join();
    std::once_flag flag;
    int calls = 0;
    for (int round = 0; round < 3; round++)
        std::call_once(flag, [&] { calls++; });
    CHECK(calls == 1);
    try {
        std::thread().join();
        CHECK(!"no exception");
    } catch (const std::system_error &error) {
        CHECK(error.code() == std::errc::invalid_argument);
    }
}

void time_passes() {
    auto before = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(20ms);
    CHECK(std::chrono::steady_clock::now() - before >= 20ms);
    std::this_thread::sleep_until(std::chrono::system_clock::now() + 5ms);
    std::condition_variable never;
    std::mutex mutex;
    std::unique_lock<std::mutex> lock(mutex);
    before = std::chrono::steady_clock::now();
    CHECK(never.wait_until(lock, before + 10ms) == std::cv_status::timeout);
    CHECK(std::chrono::steady_clock::now() - before >= 10ms);
    // This century.
    std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    CHECK(now > 946684800 && std::chrono::duration_cast<std::chrono::seconds>(2h) == 7200s);
}

void files() {
    fs::path root = fs::temp_directory_path() / "plusplus-system";
    fs::remove_all(root);
    CHECK(fs::create_directories(root / "a" / "b") && fs::is_directory(root / "a"));
    {
        std::ofstream file(root / "a" / "numbers.txt");
        for (int number = 0; number < 1000; number++)
            file << number << '\n';
        CHECK(file.good());
    }
    std::ifstream file(root / "a" / "numbers.txt");
    long sum = 0;
    for (int number; file >> number;)
        sum += number;
    CHECK(sum == 499500 && file.eof());
    file.clear();
    file.seekg(-4, std::ios::end);
    std::string last;
    CHECK(file >> last && last == "999");
    {
        std::fstream both(root / "both", std::ios::in | std::ios::out | std::ios::trunc);
        both << "written" << std::flush;
        both.seekg(0);
        both >> last;
        CHECK(last == "written");
    }
    std::ofstream(root / "both", std::ios::app) << " more";
    CHECK(fs::file_size(root / "both") == 12 && fs::file_size(root / "a/numbers.txt") == 3890);
    CHECK(fs::copy_file(root / "both", root / "a/b/copy") && fs::exists(root / "a/b/copy"));
    fs::rename(root / "a/b/copy", root / "a/b/moved");
    std::vector<std::string> names;
    for (const auto &entry : fs::recursive_directory_iterator(root))
        names.push_back(entry.path().lexically_relative(root).string());
    std::sort(names.begin(), names.end());
    CHECK((names ==
           std::vector<std::string>{"a", "a/b", "a/b/moved", "a/numbers.txt", "both"}));
    fs::resize_file(root / "both", 3);
    CHECK(fs::file_size(root / "both") == 3);
    fs::permissions(root / "both", fs::perms::owner_read);
    CHECK((fs::status(root / "both").permissions() & fs::perms::owner_write) == fs::perms::none);
    CHECK(fs::last_write_time(root / "both").time_since_epoch().count() != 0);
    fs::path old = fs::current_path();
    fs::current_path(root);
    CHECK(fs::exists("a/b/moved") && fs::equivalent("a", root / "a"));
    CHECK(fs::canonical("a/../both") == fs::canonical(root) / "both");
    fs::current_path(old);
    try {
        fs::file_size(root / "nothing");
        CHECK(!"no exception");
    } catch (const fs::filesystem_error &error) {
        CHECK(error.code() == std::errc::no_such_file_or_directory);
        CHECK(error.path1() == root / "nothing");
    }
    // No file has a second name here.
    std::error_code code;
    fs::create_symlink(root / "both", root / "link", code);
    CHECK(code == std::errc::operation_not_supported || code == std::errc::not_supported);
    CHECK(!fs::is_symlink(root / "both") && !std::ifstream(root / "nothing"));
    CHECK(fs::remove_all(root) == 6 && !fs::exists(root));
}

void connections() {
    Endpoint listener;
    scif_portID self{0, listener.listen(0, 1)};
    scif_get_nodeIDs(nullptr, 0, &self.node);
    auto echoed = std::async(std::launch::async, [&] {
        Endpoint connection = listener.accept();
        std::string text(5, ' ');
        connection.receive(&text[0], 5);
        return text;
    });
    Endpoint connection;
    Endpoint::checked(scif_connect(connection, &self), "connect");
    connection.send("hello", 5);
    CHECK(echoed.get() == "hello");
    try {
        Endpoint unknown;
        scif_portID nobody{self.node, 1};
        Endpoint::checked(scif_connect(unknown, &nobody), "connect");
        CHECK(!"no exception");
    } catch (const std::system_error &error) {
        CHECK(error.code() == std::errc::connection_refused);
    }
}

} // namespace

int main() {
    threads();
    time_passes();
    files();
    connections();
    return finish("plusplus-system");
}
