SELECT visited_on, store_code, visitors
FROM (SELECT * FROM `local-dev.warehouse.store_visits_staging` FOR SYSTEM_TIME AS OF @checked_at) AS visits
WHERE visits.visitors < 0
ORDER BY visited_on, store_code