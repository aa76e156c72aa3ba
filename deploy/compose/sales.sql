SELECT userId,
       CAST(max(saleTimestamp) AS timestamp) AS latestSaleTimestamp,
       sum(totalRevenue)                     AS totalRevenue,
       sum(totalPoints)                      AS totalPoints,
       collect_set(productList)              AS productList,
       count(*)                              AS sales
FROM sales
GROUP BY userId
